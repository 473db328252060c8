"""One run from the files to the answers: a host of its own, and the client that anyone uses."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from booksan.errors import BooksanError
from booksan.gateway.describe import describe
from booksan.hashing import shard_of
from booksan.home import HomeView
from booksan.local.host import caller_of, prepared_host
from booksan.local.watch import Watch, check_disk, expired, no_space
from booksan.local.workspace import Identity, Pinned, Workspace
from booksan.spec import HOME, ParamValue
from booksan.stages.graph import Dataset
from booksan_client import collect
from booksan_client.api import Api
from booksan_client.cutter import BATCH_BYTES
from booksan_client.dataset import Dataset as Description
from booksan_client.errors import (
    FileChanged,
    InputError,
    Interrupted,
    NoSpace,
    RunGone,
    ServerError,
)
from booksan_client.inputs import Input, look_at
from booksan_client.journal import lasting
from booksan_client.out import OutDirectory
from booksan_client.state import ClientState, StateDirectory
from booksan_client.submission import Display, Plan, Submission

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

    @cached_property
    def description(self) -> Description:
        """What a server would tell about the data set."""
        return Description.from_json(describe(self.dataset))


@dataclass
class Summary(collect.Summary):
    restarts: int = 0


def run(options: Options, display: Display, stopping: Callable[[], bool]) -> Summary:
    """Everything; raises a BooksanError or a ClientError if it ends early."""
    started = time.monotonic()
    inputs = look_at(options.description, options.paths)
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
            self.watch = Watch(self.root, host, self.pinned.expires, self.display.note)
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
