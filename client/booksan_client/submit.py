"""`submit`: files to a server, answers back."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from booksan_client.api import Api
from booksan_client.collect import FORMATS, OutDirectory, Summary
from booksan_client.connect import ServerOptions, connect, interrupted_by
from booksan_client.display import RunDisplay
from booksan_client.inputs import Input, look_at
from booksan_client.state import (
    ClientDirectory,
    ClientState,
    clients_home,
    find_client,
    key_of,
    new_id,
    surely_other,
)
from booksan_client.submission import Plan, Submission
from booksan_common.commands import conclude, print_json
from booksan_common.cutter import BATCH_BYTES
from booksan_common.errors import (
    BooksanError,
    FileChanged,
    Refused,
    RunFailed,
    RunGone,
    ServerError,
    UsageError,
)
from booksan_common.files import check_directory
from booksan_common.names import CLIENT_ID, nearest, unknown_dataset, wanted_queries
from booksan_common.shapes import Dataset
from booksan_common.terminal import PatientConsole

COMPRESSIONS = ("none", "gzip")
#: Seconds that the cancelling of an old run may take before the new one begins without it.
CANCEL_PATIENCE = 5.0


@dataclass(frozen=True)
class SubmitRequest:
    """The command line, not looked at yet."""

    dataset: str
    files: Sequence[Path]
    server: ServerOptions
    out: Path | None = None
    format: str = "csv"
    settings: Sequence[str] = ()
    max_rejected: int | None = None
    detach: bool = False
    id: str | None = None
    new: bool = False
    batch_bytes: int | None = None
    compress: str = "none"
    queries: Sequence[str] = ()
    quiet: bool = False

    def check(self) -> None:
        if self.out is None and not self.detach:
            raise UsageError("name a directory for the answers with --out, or leave with --detach")
        if self.out is not None:
            check_directory(self.out, UsageError)
        if self.queries and self.detach:
            raise UsageError("with --detach no answer is fetched; name --query at booksan results")
        check_choice("format", self.format, FORMATS)
        check_choice("compression", self.compress, COMPRESSIONS)
        if self.id is not None and not CLIENT_ID.fullmatch(self.id):
            raise UsageError(
                f"client id {self.id!r} is not usable: up to 64 lower-case letters, digits and "
                "hyphens"
            )


def check_choice(kind: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"no {kind} {value!r}; {nearest(value, known)}")


def submit_command(request: SubmitRequest, *, as_json: bool) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        out = None if as_json or request.detach else PatientConsole()
        display = RunDisplay(err, out, quiet=request.quiet)
        with closing(display):
            told = _Submit(request, display, interrupted_by(stopping)).run()
        if as_json:
            print_json(told.document())
        else:
            told.say(display)
        return 0

    return conclude(work, as_json=as_json, places=lambda: [clients_home(), *_given(request.out)])


def _given(path: Path | None) -> list[Path]:
    return [] if path is None else [path]


@dataclass
class _Told:
    """What the command has to tell when all went well."""

    request: SubmitRequest
    state: ClientState
    summary: Summary

    def document(self) -> dict[str, Any]:
        found = asdict(self.summary)
        found["megabytes"] = round(self.summary.megabytes, 3)
        found["seconds"] = round(self.summary.seconds, 3)
        return found | {
            "id": self.state.id,
            "dataset": self.state.dataset,
            "params": self.state.params,
            "detached": self.request.detach,
            "exit_code": 0,
        }

    def say(self, display: RunDisplay) -> None:
        summary = self.summary
        rate = f"{summary.megabytes:.1f} MB in {summary.seconds:.1f} s"
        resent = f", {summary.resent} batches sent again" if summary.resent else ""
        if self.request.detach:
            display.note(
                f"{rate}{resent}; booksan results {self.state.id} --out DIR fetches the answers"
            )
            PatientConsole().print(self.state.id, highlight=False)
            return
        rows = ", ".join(f"{count:,} {name}" for name, count in summary.rows.items())
        rejected = sum(summary.rejected.values())
        display.note(
            f"{rows}, {rate}, {rejected:,} rejected{resent}; the answers are in {self.request.out}"
        )


class _Submit:
    """One command."""

    def __init__(
        self, request: SubmitRequest, display: RunDisplay, look: Callable[[], None]
    ) -> None:
        self.request = request
        self.display = display
        self.look = look
        self.urls: list[str] = []

    def run(self) -> _Told:
        request = self.request
        request.check()
        self.urls = request.server.urls()
        patience, tell = request.server.patience, self.display.note
        with closing(connect(self.urls, request.server.token(), self.look, patience, tell)) as api:
            dataset = _described(api, request.dataset)
            dataset.check_files(request.files)
            params = dataset.parse_params(request.settings)
            queries = wanted_queries(request.queries, (each.name for each in dataset.queries))
            inputs = look_at(dataset, request.files, api.datasets)
            path = clients_home() / key_of(dataset.name, request.files, params)
            with ExitStack() as stack:
                directory = stack.enter_context(closing(ClientDirectory.open(path)))
                out = None
                if request.out is not None and not request.detach:
                    out = stack.enter_context(closing(OutDirectory.open(request.out)))
                    out.check(query.name for query in dataset.queries)
                plan = Plan(
                    dataset,
                    inputs,
                    params,
                    out,
                    request.format,
                    request.max_rejected,
                    request.batch_bytes or BATCH_BYTES,
                    request.compress,
                    queries,
                )
                return self._go_on(api, plan, directory)

    def _go_on(self, api: Api, plan: Plan, directory: ClientDirectory) -> _Told:
        state, resumed = self._state(plan, directory)
        self.display.begin(plan.inputs, resumed)
        submission = Submission(plan, api, directory, state, self.display, look=self.look)
        try:
            summary = submission.to_the_end()
        except RunGone as error:
            earlier = _collected_earlier(state, plan)
            if earlier is None:
                directory.remove()
                raise _gone(state, error) from error
            summary = earlier
            self.display.note("the answers had been written already")
        except RunFailed as error:
            raise RunFailed(
                f"{error}; --new begins a new run, booksan cancel {state.id} gives it up"
            ) from error
        except Refused as error:
            raise _refusal(error, state, directory, resumed) from error
        summary.resumed = resumed
        if not self.request.detach:
            directory.remove()
        return _Told(self.request, state, summary)

    def _state(self, plan: Plan, directory: ClientDirectory) -> tuple[ClientState, bool]:
        """What an earlier command began with, or a beginning."""
        state = directory.load()
        if state is not None and self.request.new:
            self._cancel(state)
            directory.clear()
            state = None
        if state is None:
            return directory.begin(self._new_state(plan)), False
        self._check_same(state, plan.inputs)
        state.servers = self.urls
        if self.request.out is not None:
            state.out = str(self.request.out.resolve())
        return state, True

    def _new_state(self, plan: Plan) -> ClientState:
        request = self.request
        if request.id is not None and find_client(request.id) is not None:
            raise UsageError(
                f"client {request.id} is another run of yours; choose another --id, or give that "
                f"one up with booksan cancel {request.id}"
            )
        return ClientState(
            id=request.id or new_id(plan.dataset.name),
            dataset=plan.dataset.name,
            params=dict(plan.params),
            files={each.source.name: dict(each.fingerprint) for each in plan.inputs},
            servers=self.urls,
            out=str(request.out.resolve()) if request.out else None,
        )

    def _check_same(self, state: ClientState, inputs: Sequence[Input]) -> None:
        if self.request.id not in (None, state.id):
            raise UsageError(
                f"these files and parameters are being worked on as client {state.id}; leave out "
                "--id to go on with it, or begin a new run with --new"
            )
        for each in inputs:
            # Where there is only doubt, what was sent is compared while the rest is sent.
            if surely_other(state.files.get(each.source.name, {}), each.fingerprint):
                raise FileChanged(each.path)

    def _cancel(self, state: ClientState) -> None:
        """The old run of the same files, if a server can be reached."""
        token = self.request.server.token()
        patience = min(CANCEL_PATIENCE, self.request.server.patience)
        with closing(connect(self.urls, token, self.look, patience)) as api:
            try:
                api.client(state.id, state.secret, state.ticket).cancel()
            except (ServerError, RunGone) as error:
                self.display.note(f"client {state.id} was left to expire at the server: {error}")


def _described(api: Api, name: str) -> Dataset:
    try:
        return api.dataset(name)
    except Refused as error:
        if error.code == "broken_dataset":
            raise UsageError(str(error)) from None
        if error.status != 404:
            raise
    known = [each.name for each in api.datasets()]
    raise UsageError(f"{unknown_dataset(name, known)} (those of the server)")


def _collected_earlier(state: ClientState, plan: Plan) -> Summary | None:
    """What had been collected before the run was gone, however it went; None if that is not there.

    The answers are written before anything else can happen to the run: they are whole and right.
    """
    if state.phase != "collected" or state.summary is None:
        return None
    summary = Summary(**state.summary)
    if plan.queries and summary.answers.keys() != set(plan.queries):
        return None
    written = [Path(path) for path in summary.files.values()]
    if plan.out is None or not all(path.exists() for path in written):
        return None
    wanted = {f"{name}.{plan.format}" for name in summary.answers}
    if not {path.name for path in written} >= wanted:
        return None
    same = all(path.resolve().parent == plan.out.path.resolve() for path in written)
    return summary if same else None


def _gone(state: ClientState, error: RunGone) -> RunGone:
    how = error.how or "unknown there"
    return RunGone(
        f"the run {state.id} is gone at the server ({how}); the same command begins a new one",
        error.how,
    )


def _refusal(
    error: Refused, state: ClientState, directory: ClientDirectory, resumed: bool
) -> BooksanError:
    """A run that was never begun leaves no state."""
    if not resumed and state.ticket is None:
        directory.remove()
    if error.status == 422:
        return UsageError(str(error))
    return error
