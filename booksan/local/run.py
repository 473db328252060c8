"""One run from the files to the answers: a host of its own, the gateway, and one client."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from booksan.answers import Format, Row, csv_bytes, write_answer
from booksan.errors import BooksanError, RunFailed, TooManyRejected
from booksan.files import write_atomically
from booksan.gateway.uploads import Gateway
from booksan.home import HomeStatus, HomeView
from booksan.local.inputs import Input, look_at
from booksan.local.watch import Watch, check_disk
from booksan.local.workspace import Identity, Pinned, Workspace
from booksan.spec import ParamValue, Spec
from booksan.stages.graph import Dataset, Query
from booksan.supervisor.config import HostConfig, WorkerSpec, write_config
from booksan.supervisor.handle import Host
from booksan.tickets import load_secret
from booksan.transport.spool import Spool
from booksan_client.cutter import BATCH_BYTES, BATCH_LINES
from booksan_client.errors import InputError
from booksan_client.journal import Journal, fingerprint
from booksan_client.upload import upload

#: Seconds after which a run that was left alone is given up for good.
EXPIRY = 7 * 24 * 3600
#: Seconds between two looks at the home: it decides how long a permit or a result goes unnoticed.
LOOK = 0.02
#: Seconds that the stages get to forget a client whose answers are written.
GONE_SECONDS = 10.0


class Interrupted(Exception):
    """The user, or the machine, asked to stop; everything is kept."""


class Display(Protocol):
    """What a run tells while it goes."""

    def begin(self, inputs: Sequence[Input], resumed: bool) -> None: ...
    def uploaded(self, source: str, offset: int) -> None: ...
    def moved(self, root: Path, spec: Spec, status: HomeStatus) -> None: ...
    def answer(self, query: Query, rows: Sequence[Row], path: Path) -> None: ...
    def note(self, text: str) -> None: ...


@dataclass(frozen=True)
class Options:
    dataset: Dataset
    paths: Sequence[Path]
    out: Path
    params: dict[str, ParamValue]
    workers: int
    format: Format = Format.CSV
    data_dir: Path | None = None
    max_rejected: int | None = None
    batch_bytes: int = BATCH_BYTES


@dataclass
class Summary:
    files: dict[str, str] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    megabytes: float = 0.0
    seconds: float = 0.0
    restarts: int = 0
    resumed: bool = False


def run(options: Options, display: Display, stopping: Callable[[], bool]) -> Summary:
    """Everything; raises a BooksanError, an InputError or Interrupted if it ends early."""
    started = time.monotonic()
    inputs = look_at(options.dataset, options.paths)
    options.out.mkdir(parents=True, exist_ok=True)
    identity = Identity(
        options.dataset.name,
        options.dataset.version,
        options.params,
        {each.source.name: each.fingerprint for each in inputs},
    )
    workspace = Workspace.open(options.data_dir, identity)
    try:
        fresh = _fresh(options, identity)
        pinned, resumed = workspace.pinned(fresh, time.time())
        local = LocalRun(options, inputs, workspace, pinned, display, stopping)
        if resumed and (failure := local.earlier_failure()):
            display.note(f"the last run failed ({failure}); beginning anew")
            workspace.begin_anew(fresh)
            local = LocalRun(options, inputs, workspace, fresh, display, stopping)
            resumed = False
        display.begin(inputs, resumed)
        summary = local.to_the_end()
        workspace.finish()
    finally:
        workspace.close()
    summary.resumed = resumed
    summary.seconds = time.monotonic() - started
    return summary


def _fresh(options: Options, identity: Identity) -> Pinned:
    shards = {stage.name: options.workers if stage.heavy else 1 for stage in options.dataset.stages}
    return Pinned(f"run-{identity.digest}", shards, int(time.time()) + EXPIRY)


class LocalRun:
    """The client's side of a run, and the host that serves it."""

    def __init__(
        self,
        options: Options,
        inputs: Sequence[Input],
        workspace: Workspace,
        pinned: Pinned,
        display: Display,
        stopping: Callable[[], bool],
    ) -> None:
        self.options = options
        self.inputs = inputs
        self.workspace = workspace
        self.pinned = pinned
        self.root = workspace.path
        self.display = display
        self.stopping = stopping
        self.spec = Spec(
            client=pinned.client,
            dataset=options.dataset.name,
            version=options.dataset.version,
            params=options.params,
            columns={each.source.name: each.header.names for each in inputs},
            shards=pinned.shards,
            expires=pinned.expires,
        )
        self.view = HomeView(self.root, self.spec.client, self.spec.home)
        self.summary = Summary()
        self._abandoned = False
        self._put_error: Exception | None = None

    def earlier_failure(self) -> str | None:
        """Why an earlier command's run, which this one would go on with, has failed already."""
        status = self.view.status()
        self.view.close()
        return status.failed if status else None

    def to_the_end(self) -> Summary:
        check_disk(self.root)
        secret = load_secret(self.root)
        write_config(self.root, HostConfig(tuple(self._worker_specs())))
        host = Host(self.root, {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"})
        with contextlib.closing(self.view), host, Spool(self.root) as transport:
            self.watch = Watch(self.root, self.spec, host, self.view, self.display.note)
            self.gateway = Gateway(transport, secret, while_waiting=self._go_on_waiting)
            ticket = self._create()
            for each in self.inputs:
                self._send(each, ticket)
            self._wait(lambda status: status.done)
            self._write_rejected()
            self.workspace.settle(self.pinned)
            self._release(ticket)
            self._wait_until_gone()
            self._sum_up()
        return self.summary

    def _worker_specs(self) -> list[WorkerSpec]:
        return [
            WorkerSpec(stage, shard)
            for stage, count in self.spec.shards.items()
            for shard in range(count)
        ]

    def _create(self) -> str:
        if self._status() is None:
            self.gateway.create(self.spec)
        status = self._wait(lambda _: True)
        if status.spec != self.spec:
            raise RunFailed(f"{self.root} holds another run under the same id; remove it")
        return status.ticket

    def _send(self, each: Input, ticket: str) -> None:
        name = each.source.name
        status = self._wait(lambda status: name in status.permits)
        permit = status.permits[name]
        length = status.sources[name].of_batches
        if length is not None:
            # The home knows the end; that the others do is not certain after a power failure.
            self.gateway.end(ticket, name, length, permit)
            return
        try:
            self._upload(each, ticket, permit)
        except Interrupted:
            # A batch that failed for a reason of its own tells more than those that gave up too.
            if self._put_error is not None:
                raise self._put_error from None
            raise

    def _abandon(self) -> None:
        """Batches that wait for room in other threads must give up."""
        self._abandoned = True

    def _upload(self, each: Input, ticket: str, permit: str) -> None:
        name = each.source.name

        def put(number: int, data: bytes) -> None:
            try:
                self.gateway.put(ticket, name, number, data, permit)
            except Interrupted:
                raise
            except Exception as error:
                self._put_error = error
                self._abandon()
                raise

        journal = Journal(
            self.root / f"{name}.journal",
            dict(each.fingerprint),
            {"batch_bytes": self.options.batch_bytes, "batch_lines": BATCH_LINES},
        )
        with contextlib.closing(journal):
            delimiter = each.source.delimiter
            for sent in upload(
                each.path,
                each.header,
                journal,
                put,
                self._look,
                give_up=self._abandon,
                delimiter=delimiter,
            ):
                self.display.uploaded(name, sent.end)
            if fingerprint(each.path) != each.fingerprint:
                raise InputError(f"{each.path}: changed while it was being read; begin a new run")
            self.gateway.end(ticket, name, len(journal.entries), permit)

    def _wait(self, ready: Callable[[HomeStatus], bool]) -> HomeStatus:
        while True:
            status = self._look()
            if status is not None and ready(status):
                return status
            time.sleep(LOOK)

    def _look(self) -> HomeStatus | None:
        """Looks at the home and at everything that could end the run early; raises if it does."""
        try:
            return self._look_closely()
        except BaseException:
            self._abandon()
            raise

    def _look_closely(self) -> HomeStatus | None:
        if self.stopping():
            raise Interrupted
        self.watch.look()
        status = self._status()
        if status is not None:
            self._judge(status)
        return status

    def _status(self) -> HomeStatus | None:
        try:
            return self.view.status()
        except sqlite3.OperationalError as error:
            check_disk(self.root)
            raise BooksanError(f"the state in {self.root} cannot be read: {error}") from error

    def _judge(self, status: HomeStatus) -> None:
        if status.failed is not None:
            raise RunFailed(status.failed)
        limit = self.options.max_rejected
        if limit is not None and status.rejected > limit:
            self._write_rejected()
            raise TooManyRejected(
                f"{_rows(status.rejected)} rejected, {limit:,} allowed (--max-rejected); "
                "the same command with a higher limit goes on from here"
            )
        for query in self.options.dataset.queries:
            if query.stage in status.complete and query.name not in self.summary.answers:
                self._write_answer(query)
        self.display.moved(self.root, self.spec, status)
        self.watch.look_for_stall(status)

    def _go_on_waiting(self) -> None:
        """Called by uploads that are held back."""
        if self._abandoned or self.stopping():
            raise Interrupted

    def _write_answer(self, query: Query) -> None:
        rows = self.view.answer(query)
        path = write_answer(self.options.out, query, rows, self.options.format)
        self.summary.answers[query.name] = len(rows)
        self.summary.files[query.name] = str(path)
        self.display.answer(query, rows, path)

    def _write_rejected(self) -> None:
        path = self.options.out / "rejected.csv"
        rows: list[tuple[Any, ...]] = [
            (each.source.name, row, reason)
            for each in self.inputs
            for row, reason in self.view.rejected_rows(each.source.name)
        ]
        if rows:
            write_atomically(path, csv_bytes(("source", "row", "reason"), rows))
            self.summary.files["rejected"] = str(path)
            self.display.note(f"{_rows(len(rows))} rejected; {path} says which and why")
        else:
            # One from an earlier run would tell of rows that these files do not have.
            path.unlink(missing_ok=True)

    def _release(self, ticket: str) -> None:
        """The answers are written, so the stages may forget the client."""
        status = self._status()
        assert status is not None
        self.summary.rows = {name: found.rows for name, found in status.sources.items()}
        self.summary.rejected = {name: found.rejected for name, found in status.sources.items()}
        self.view.close()
        self.gateway.release(ticket, "done")

    def _wait_until_gone(self) -> None:
        """Every shard has deleted what it had; past the deadline the directory goes with it all."""
        deadline = time.monotonic() + GONE_SECONDS
        while (self.root / "clients" / self.spec.client).exists():
            if self.stopping():
                raise Interrupted
            if time.monotonic() > deadline:
                return
            self.watch.look_at_host()
            time.sleep(LOOK)

    def _sum_up(self) -> None:
        self.summary.megabytes = sum(each.fingerprint["size"] for each in self.inputs) / 1e6
        self.summary.restarts = self.watch.restarts


def _rows(count: int) -> str:
    return "1 row was" if count == 1 else f"{count:,} rows were"
