"""`booksan run`: options in; a host of its own, the client that anyone uses; answers out."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from rich.console import Console

from booksan.datasets import dataset_named, datasets, describe
from booksan.errors import BooksanError, RunFailed, UsageError
from booksan.heartbeat import quiet_collector
from booksan.home import HomeView
from booksan.host.handle import Host
from booksan.host.status import HostState
from booksan.local.workspace import Identity, Pinned, Workspace, caller_of, prepared_host
from booksan.shards import shard_of
from booksan.spec import HOME
from booksan.stages.graph import Dataset
from booksan_client import collect
from booksan_client.api import Api
from booksan_client.collect import FORMATS, OutDirectory
from booksan_client.display import RunDisplay
from booksan_client.inputs import Input, look_at
from booksan_client.state import ClientState, StateDirectory, lasting
from booksan_client.submission import Display, Plan, Submission
from booksan_client.submit import check_choice
from booksan_common.commands import conclude, print_json
from booksan_common.cutter import BATCH_BYTES
from booksan_common.errors import (
    FileChanged,
    InputError,
    Interrupted,
    NoSpace,
    RunGone,
    ServerError,
)
from booksan_common.files import check_directory, state_home
from booksan_common.names import wanted_queries
from booksan_common.params import ParamValue
from booksan_common.shapes import Dataset as Description
from booksan_common.terminal import PatientConsole

# Everything but the server's answers that can end a run or that its user should hear of.

#: Seconds between two looks at things that change rarely: the host, the disk, the clock.
SLOW_LOOK = 0.5
#: Bytes that must be free; below, SQLite and the queues cannot go on.
MIN_FREE = 4 * 1024 * 1024


def no_space(root: Path) -> NoSpace:
    return NoSpace(
        f"no space left where {root} is; make room, or name another --data-dir; "
        "then the same command goes on where it was"
    )


def check_disk(root: Path) -> None:
    if shutil.disk_usage(root).free < MIN_FREE:
        raise no_space(root)


def expired() -> RunFailed:
    return RunFailed("the run has expired; the same command begins a new one")


class HostWatch:
    """Looks at the host, the disk and the clock now and then."""

    def __init__(self, root: Path, host: Host, expires: int, note: Callable[[str], None]) -> None:
        self.root = root
        self.host = host
        self.expires = expires
        self.note = note
        #: Restarts that supervisors killed since took with them.
        self._earlier_restarts = 0
        self._next_look = 0.0

    @property
    def restarts(self) -> int:
        status = self.host.status()
        return self._earlier_restarts + (status.restarts if status else 0)

    def look(self) -> None:
        """Raises if the run cannot go on."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + SLOW_LOOK
            self.look_at_host()
            check_disk(self.root)
            if self.expires <= time.time():
                raise expired()

    def look_at_host(self) -> None:
        """A killed supervisor is started again; one that gave up says why."""
        code = self.host.poll()
        if code is None:
            return
        status = self.host.status()
        if code < 0:
            self._earlier_restarts += 1 + (status.restarts if status else 0)
            self.note("the supervisor was killed; starting it again")
            self.host.restart()
            return
        cause = status.error if status and status.state is HostState.FAILED else None
        cause = cause or f"the supervisor ended with code {code}"
        raise BooksanError(f"{cause}; the logs are in {self.root / 'logs'}")


# One run from the files to the answers: a host of its own, and the client that anyone uses.

#: Seconds after which a run that was left alone is given up for good.
EXPIRY = 7 * 24 * 3600
#: Seconds between two looks at whether the stages have forgotten the client.
LOOK = 0.02
#: Seconds that they get for that once its answers are written.
GONE_SECONDS = 10.0


@dataclass(frozen=True)
class Options:
    dataset: Dataset
    paths: Sequence[Path]
    out: Path
    params: dict[str, ParamValue]
    workers: int
    format: str = "csv"
    data_dir: Path | None = None
    max_rejected: int | None = None
    batch_bytes: int = BATCH_BYTES
    queries: Sequence[str] = ()

    @cached_property
    def description(self) -> Description:
        """What a server would tell about the data set."""
        return describe(self.dataset).checked()


@dataclass
class Summary(collect.Summary):
    restarts: int = 0


def run(options: Options, display: Display, stopping: Callable[[], bool]) -> Summary:
    """Everything; raises a BooksanError if it ends early."""
    started = time.monotonic()
    inputs = look_at(options.description, options.paths, _all_described)
    identity = Identity(
        options.dataset.name,
        options.dataset.version,
        options.params,
        {each.source.name: lasting(each.fingerprint) for each in inputs},
    )
    with (
        closing(Workspace.open(options.data_dir, identity)) as workspace,
        closing(OutDirectory.open(options.out)) as out,
    ):
        out.check(query.name for query in options.description.queries)
        fresh = _fresh(options, identity)
        pinned, resumed = workspace.pinned(fresh, time.time())
        if resumed and (failure := _earlier_failure(workspace.path, pinned)):
            display.note(f"the last run failed ({failure}); beginning anew")
            workspace.begin_anew(fresh)
            pinned, resumed = fresh, False
        display.begin(inputs, resumed)
        try:
            local = LocalRun(options, inputs, out, workspace, pinned, display, stopping)
            summary = local.to_the_end()
        except FileChanged as error:
            # Answers that an earlier command wrote are of the file as it was.
            out.clear()
            workspace.finish()
            raise InputError(
                f"{error.path}: has changed since the run began; the same command begins a new one"
            ) from error
        workspace.finish()
    summary.resumed = resumed
    summary.seconds = time.monotonic() - started
    return summary


def _all_described() -> Iterator[Description]:
    return (describe(each) for each in datasets().values())


def _fresh(options: Options, identity: Identity) -> Pinned:
    shards = {stage.name: options.workers if stage.heavy else 1 for stage in options.dataset.stages}
    return Pinned(f"run-{identity.digest}", shards, int(time.time()) + EXPIRY)


def _view(root: Path, pinned: Pinned) -> HomeView:
    return HomeView(root, pinned.client, shard_of(pinned.client, pinned.shards[HOME]))


def _earlier_failure(root: Path, pinned: Pinned) -> str | None:
    """Why an earlier command's run, which this one would go on with, has failed already."""
    with closing(_view(root, pinned)) as view:
        status = view.status()
    return status.failed if status else None


class LocalRun:
    """A client's submission, and the host that serves it."""

    def __init__(
        self,
        options: Options,
        inputs: Sequence[Input],
        out: OutDirectory,
        workspace: Workspace,
        pinned: Pinned,
        display: Display,
        stopping: Callable[[], bool],
    ) -> None:
        self.options = options
        self.inputs = inputs
        self.out = out
        self.workspace = workspace
        self.pinned = pinned
        self.root = workspace.path
        self.display = display
        self.stopping = stopping

    def to_the_end(self) -> Summary:
        check_disk(self.root)
        left = max(1, self.pinned.expires - int(time.time()))
        host = prepared_host(self.root, self.pinned.shards, left)
        with host, closing(Api(caller_of(self.root))) as api:
            self.watch = HostWatch(self.root, host, self.pinned.expires, self.display.note)
            api.caller.while_waiting = self._look
            try:
                found = self._submission(api).to_the_end()
            except NoSpace:
                raise no_space(self.root) from None
            except RunGone:
                raise expired() from None
            except ServerError as error:
                raise BooksanError(f"{error}; the logs are in {self.root / 'logs'}") from error
            self._wait_until_gone()
            return Summary(**asdict(found), restarts=self.watch.restarts)

    def _submission(self, api: Api) -> Submission:
        options = self.options
        plan = Plan(
            options.description,
            self.inputs,
            options.params,
            self.out,
            options.format,
            options.max_rejected,
            options.batch_bytes,
            queries=options.queries,
        )
        directory = StateDirectory(self.root)
        state = directory.load() or directory.begin(
            ClientState(
                id=self.pinned.client,
                dataset=options.dataset.name,
                params=dict(options.params),
                files={each.source.name: dict(each.fingerprint) for each in self.inputs},
            )
        )
        return Submission(
            plan,
            api,
            directory,
            state,
            self.display,
            look=self._look,
            settled=lambda: self.workspace.settle(self.pinned),
        )

    def _look(self) -> None:
        """Everything besides the server that could end the run early; raises if it does."""
        if self.stopping():
            raise Interrupted
        self.watch.look()

    def _wait_until_gone(self) -> None:
        """Every shard has deleted what it had; past the deadline the directory goes with it all."""
        deadline = time.monotonic() + GONE_SECONDS
        while (self.root / "clients" / self.pinned.client).exists():
            if self.stopping():
                raise Interrupted
            if time.monotonic() > deadline:
                return
            self.watch.look_at_host()
            time.sleep(LOOK)


# `booksan run` as the user meets it: options in, answers, messages and an exit code out.


@dataclass(frozen=True)
class Request:
    """The command line, not looked at yet."""

    dataset: str
    files: list[Path]
    out: Path
    workers: int | None
    settings: list[str]
    format: str
    data_dir: Path | None
    max_rejected: int | None
    batch_bytes: int | None
    queries: list[str] = field(default_factory=list)
    quiet: bool = False


def run_command(request: Request, *, as_json: bool) -> int:
    quiet_collector()

    def work(err: Console, stopping: Callable[[], bool]) -> int:
        options = _options(request)
        display = RunDisplay(err, None if as_json else PatientConsole(), quiet=request.quiet)
        with closing(display):
            summary = run(options, display, stopping)
        if as_json:
            print_json(_document(options, summary))
        else:
            display.note(_words(options, summary))
        return 0

    return conclude(
        work, as_json=as_json, places=lambda: (request.data_dir or state_home(), request.out)
    )


def _options(request: Request) -> Options:
    dataset = dataset_named(request.dataset)
    options = Options(
        dataset=dataset,
        paths=request.files,
        out=request.out,
        params={},
        workers=request.workers or os.cpu_count() or 1,
        format=request.format,
        data_dir=request.data_dir,
        max_rejected=request.max_rejected,
        batch_bytes=request.batch_bytes or BATCH_BYTES,
        queries=wanted_queries(request.queries, (each.name for each in dataset.queries)),
    )
    options.description.check_files(request.files)
    check_directory(request.out, UsageError)
    _check_apart(request.out, request.data_dir)
    check_choice("format", request.format, FORMATS)
    options.params.update(options.description.parse_params(request.settings))
    return options


def _check_apart(out: Path, data_dir: Path | None) -> None:
    if data_dir is not None and out.resolve().is_relative_to(data_dir.resolve()):
        raise UsageError(
            f"--out {out} lies in --data-dir {data_dir}, which is emptied at the end; "
            "name another one"
        )


def _document(options: Options, summary: Summary) -> dict[str, object]:
    found = asdict(summary)
    found["megabytes"] = round(summary.megabytes, 3)
    found["seconds"] = round(summary.seconds, 3)
    return found | {"dataset": options.dataset.name, "params": options.params, "exit_code": 0}


def _words(options: Options, summary: Summary) -> str:
    rows = ", ".join(f"{count:,} {name}" for name, count in summary.rows.items())
    rate = summary.megabytes / summary.seconds
    restarts = f", {summary.restarts} restarts" if summary.restarts else ""
    rejected = sum(summary.rejected.values())
    return (
        f"{rows} in {summary.seconds:.1f} s ({rate:.1f} MB/s), {rejected:,} rejected"
        f"{restarts}; the answers are in {options.out}"
    )
