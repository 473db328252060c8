"""What becomes of runs that were begun earlier: their answers, their end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from msgspec import to_builtins
from rich.console import Console

from booksan_client.api import Api, ClientApi, Follower
from booksan_client.collect import FORMATS, Collector, OutDirectory, Summary
from booksan_client.connect import ServerOptions, connect, interrupted_by
from booksan_client.display import RunDisplay
from booksan_client.state import (
    ClientDirectory,
    ClientState,
    Journal,
    clients_home,
    find_client,
    known_clients,
)
from booksan_client.submission import LOOK
from booksan_client.submit import check_choice
from booksan_client.upload import Healer, Part
from booksan_common.commands import conclude, print_json
from booksan_common.errors import InputError, RunFailed, RunGone, UsageError
from booksan_common.files import check_directory
from booksan_common.names import nearest, wanted_queries
from booksan_common.shapes import Client, Status
from booksan_common.terminal import Column, FittedTable, PatientConsole, shown

# The answers of a run whose upload was done by an earlier command.


class Results:
    """Waits for them, and sends again what got lost, as the command of the upload would do."""

    def __init__(
        self, collector: Collector, display: RunDisplay, directory: ClientDirectory | None
    ) -> None:
        """Without a directory, as the operator has none, nothing can be sent again."""
        self._collector = collector
        self._api = collector.api
        self._display = display
        self._directory = directory
        self._state = directory.load() if directory else None
        self._stack = ExitStack()
        self._healer: Healer | None = None
        self._told: set[str] = set()

    def fetch(self, *, keep: bool) -> Summary:
        try:
            with self._stack:
                summary = self._fetch()
            if not keep:
                self._api.acknowledge()
                self._forget()
        except RunGone as error:
            if not error.how and self._state is not None:
                raise RunGone(
                    f"the server has lost the run {self._api.id}; the same submit command sends "
                    "everything again"
                ) from error
            self._forget()
            raise
        return summary

    def _forget(self) -> None:
        if self._directory is not None:
            self._directory.remove()

    def _fetch(self) -> Summary:
        status = self._api.status()
        self._check_uploaded(status)
        self._collector.queries = wanted_queries(self._collector.queries, status.answers)
        self._collector.out.check(status.answers)
        self._display.begin((), resumed=False)
        follower = Follower(self._api, status, stages_every=self._display.stages_every)
        self._stack.enter_context(follower)
        follower.hurry()
        while True:
            self._judge(status)
            self._collector.look_at(status)
            self._display.moved(status)
            if status.done:
                self._collector.finish(status)
                return self._collector.summary
            self._heal(status)
            follower.wait_for_news(status, LOOK)
            status = follower.latest()

    def _check_uploaded(self, status: Status) -> None:
        """What an earlier command has sent to the end can be healed; what it has not, cannot."""
        if status.state != "uploading" or (self._state and self._state.phase != "uploading"):
            return
        lacking = _without_end(status)
        if lacking or not status.sources:
            raise UsageError(
                f"the upload of {status.id} is not complete ({', '.join(lacking)}); the same "
                "submit command goes on with it"
            )

    def _judge(self, status: Status) -> None:
        self._collector.look()
        if status.failed is not None:
            raise RunFailed(f"{status.failed}; booksan cancel {status.id} removes the run")
        if self._directory and self._state and self._state.ticket != status.ticket:
            self._state.ticket = status.ticket
            self._directory.save(self._state)

    def _heal(self, status: Status) -> None:
        if self._directory is None or self._state is None:
            return
        if not (status.lacks or status.stall or _without_end(status)):
            return
        if status.stall is not None:
            self._tell(status.stall.words())
        try:
            self._healer = self._healer or self._new_healer(self._directory, self._state)
            self._healer.heal(status)
        except InputError as error:
            # Perhaps it is only slow; the server decides whether the run fails.
            self._tell(f"what got lost cannot be sent again: {error}")

    def _new_healer(self, directory: ClientDirectory, state: ClientState) -> Healer:
        parts = {}
        for source in Api(self._api.caller).dataset(state.dataset).sources:
            path = directory.journal(source.name)
            if path.exists() and source.name in state.files:
                file = state.files[source.name]
                journal = self._stack.enter_context(closing(Journal(path, file, {})))
                parts[source.name] = Part(Path(file["path"]), source.delimiter, journal)
        healer = Healer(self._api, parts, self._display.note, self._collector.look)
        for name, part in parts.items():
            healer.expect(name, len(part.journal.entries))
        return healer

    def _tell(self, text: str) -> None:
        """Each thing once."""
        if text not in self._told:
            self._told.add(text)
            self._display.note(text)


def _without_end(status: Status) -> list[str]:
    return [name for name, each in status.sources.items() if each.of_batches is None]


# What becomes of runs that were begun earlier: their answers, their end, and all of them.


@contextmanager
def client_api(
    id: str,
    options: ServerOptions,
    look: Callable[[], object],
    tell: Callable[[str], object] | None = None,
) -> Iterator[tuple[ClientApi, Path | None]]:
    """The calls for a client, and its directory if it is one of this user's."""
    known = find_client(id)
    if known is None and options.operator_token() is None:
        mine = [state.id for _, state in known_clients()]
        raise UsageError(
            f"no client {id!r} is known here; {nearest(id, mine)}; the operator's token lets you "
            "see others"
        )
    path, state = known or (None, None)
    token = options.token() if state else options.operator_token()
    urls = options.urls(state.servers if state else ())
    with closing(connect(urls, token, look, options.patience, tell)) as api:
        if state is None:
            yield api.client(id, None), None
        else:
            yield api.client(id, state.secret, state.ticket), path


def _telling(err: Console) -> Callable[[str], object]:
    """Why it takes long, for whoever waits."""
    return lambda text: err.print(shown(f"booksan: {text}"), soft_wrap=True)


def results_command(
    id: str,
    out: Path,
    form: str,
    options: ServerOptions,
    *,
    queries: Sequence[str] = (),
    keep: bool,
    quiet: bool = False,
    as_json: bool,
) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        check_directory(out, UsageError)
        check_choice("format", form, FORMATS)
        look = interrupted_by(stopping)
        display = RunDisplay(err, None if as_json else PatientConsole(), quiet=quiet)
        with ExitStack() as stack:
            stack.enter_context(closing(display))
            api, path = stack.enter_context(client_api(id, options, look, display.note))
            directory = None
            if path is not None:
                directory = stack.enter_context(closing(ClientDirectory.open(path)))
            place = stack.enter_context(closing(OutDirectory.open(out)))
            collector = Collector(api, place, form, display, look, queries)
            summary = Results(collector, display, directory).fetch(keep=keep)
        if as_json:
            print_json(asdict(summary) | {"id": id, "kept": keep, "exit_code": 0})
        else:
            display.note(f"the answers of {id} are in {out}")
        return 0

    return conclude(work, as_json=as_json, places=lambda: [out, clients_home()])


def cancel_command(id: str, options: ServerOptions, *, as_json: bool) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        with client_api(id, options, interrupted_by(stopping), _telling(err)) as (api, path):
            try:
                how = api.cancel()
            except RunGone as error:
                # What is gone already is as good as cancelled.
                how = error.how or "unknown"
            _forget_unless_in_use(path)
        if as_json:
            print_json({"id": id, "how": how, "exit_code": 0})
        else:
            PatientConsole().print(shown(f"{id}: {how}"))
        return 0

    return conclude(work, as_json=as_json)


def _forget_unless_in_use(path: Path | None) -> None:
    """A command that still works on the client finds out by itself, and removes it then."""
    if path is None:
        return
    try:
        directory = ClientDirectory.open(path)
    except UsageError:
        return
    with closing(directory):
        directory.remove()


def list_command(options: ServerOptions, *, as_json: bool) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        token = options.needed_operator_token()
        look = interrupted_by(stopping)
        with closing(connect(options.urls(), token, look, options.patience, _telling(err))) as api:
            found = api.clients()
        if as_json:
            print_json(to_builtins(found) | {"exit_code": 0})
            return 0
        if not found.clients:
            PatientConsole().print("there are no clients")
        else:
            PatientConsole().print(_clients(found.clients))
        if found.missing:
            err.print(shown(f"booksan: no answer from {', '.join(found.missing)}"))
        return 0

    return conclude(work, as_json=as_json)


def _clients(found: Sequence[Client]) -> FittedTable:
    table = FittedTable(
        Column("client"),
        Column("data set", 2),
        Column("state"),
        Column("host", 1),
        Column("expires", 3),
    )
    for each in found:
        expires = datetime.fromtimestamp(each.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
        table.add_row(each.id, each.dataset, each.state, each.host, expires)
    return table
