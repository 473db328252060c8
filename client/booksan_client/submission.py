"""One run from the files to the answers, over HTTP: the same for `submit` and for `booksan run`."""

import contextlib
import gzip
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from booksan_client.api import Api, ClientApi, spec_in
from booksan_client.collect import AnswerDisplay, Collector, Summary, words_for_rows
from booksan_client.cutter import BATCH_BYTES, BATCH_LINES
from booksan_client.dataset import Dataset, ParamValue
from booksan_client.errors import InputError, RunFailed, TooManyRejected
from booksan_client.follow import Follower
from booksan_client.inputs import Input
from booksan_client.journal import Journal, fingerprint
from booksan_client.state import ClientState, StateDirectory
from booksan_client.status import Status
from booksan_client.upload import upload, upload_again

#: Seconds between two looks at everything but the server while something is waited for.
LOOK = 0.1
#: Seconds until what a stalled run lacks is sent once more.
HELP_AGAIN = 120.0


class Display(AnswerDisplay, Protocol):
    """What a run tells while it goes."""

    @property
    def shows_stages(self) -> bool: ...
    def begin(self, inputs: Sequence[Input], resumed: bool) -> None: ...
    def uploaded(self, source: str, offset: int) -> None: ...
    def moved(self, status: Status) -> None: ...


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    dataset: Dataset
    inputs: Sequence[Input]
    params: dict[str, ParamValue]
    #: None: only the upload is done here; the answers stay at the server.
    out: Path | None
    format: str = "csv"
    max_rejected: int | None = None
    batch_bytes: int = BATCH_BYTES
    compress: str = "none"


class Submission:
    """Takes a client from wherever it stands to its end; one thread drives it.

    `look` is called again and again and raises to end everything, Interrupted for one. `settled`
    is called when the answers are written, before they are deleted at the server.
    """

    def __init__(
        self,
        plan: Plan,
        api: Api,
        directory: StateDirectory,
        state: ClientState,
        display: Display,
        *,
        look: Callable[[], object] = lambda: None,
        settled: Callable[[], object] = lambda: None,
    ) -> None:
        self.plan = plan
        self.directory = directory
        self.state = state
        self.display = display
        self.api: ClientApi = api.client(state.id, state.secret)
        self._look = look
        self._settled = settled
        self._judged: Status | None = None
        self._stall_told = -math.inf
        self._help_at = -math.inf
        self._collector = None
        if plan.out is not None:
            self._collector = Collector(self.api, plan.out, plan.format, display, look)
        self.summary = self._collector.summary if self._collector else Summary()
        self._follower: Follower

    def to_the_end(self) -> Summary:
        """Everything; the caller of the api is closed afterwards."""
        started = time.monotonic()
        first = self._create()
        with Follower(self.api, first, show_stages=self.display.shows_stages) as self._follower:
            for each in self.plan.inputs:
                self._send(each)
            self._enter("uploaded")
            if self._collector is not None:
                self._collect(self._collector)
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _create(self) -> Status:
        columns = {each.source.name: each.header.names for each in self.plan.inputs}
        status, begun = self.api.create(self.plan.dataset.name, self.plan.params, columns)
        known = self.state.ticket
        # That it was begun just now may have been the answer to a try that nobody heard of.
        if known is not None and (begun or spec_in(status.ticket) != spec_in(known)):
            self.display.note("the server has lost the run; sending everything again")
            self.directory.forget_journals()
        self.state.ticket = status.ticket
        self.directory.save(self.state)
        self.summary.megabytes = sum(each.fingerprint["size"] for each in self.plan.inputs) / 1e6
        return status

    def _enter(self, phase: str) -> None:
        self.state.phase = phase
        self.directory.save(self.state)

    def _collect(self, collector: Collector) -> None:
        status = self._wait(lambda status: status.done)
        collector.finish(status)
        self.state.summary = asdict(self.summary)
        self._enter("collected")
        self._settled()
        self.api.acknowledge()

    def _send(self, each: Input) -> None:
        name = each.source.name
        status = self._wait(lambda status: name in status.permits)
        length = status.source(name).of_batches
        if length is not None:
            # The home knows the end; that the others do is not certain after a power failure.
            self._end(name, length)
            return
        journal = self._journal(each)
        with contextlib.closing(journal):
            self.summary.resent += len(journal.entries) - len(journal.taken)
            self._follower.calm_down()
            for sent in upload(
                each.path,
                each.header,
                journal,
                lambda number, data: self._put(name, number, data),
                self._look_around,
                give_up=self.api.caller.close,
                delimiter=each.source.delimiter,
            ):
                self.display.uploaded(name, sent.end)
            if fingerprint(each.path) != each.fingerprint:
                raise InputError(f"{each.path}: changed while it was being read; begin a new run")
            self._end(name, len(journal.entries))

    def _journal(self, each: Input) -> Journal:
        cut = {"batch_bytes": self.plan.batch_bytes, "batch_lines": BATCH_LINES}
        return Journal(self.directory.journal(each.source.name), dict(each.fingerprint), cut)

    def _put(self, source: str, number: int, data: bytes) -> None:
        encoding = None
        if self.plan.compress == "gzip":
            data, encoding = gzip.compress(data, compresslevel=1, mtime=0), "gzip"
        self.api.put(source, number, data, permit=self._permit(source), encoding=encoding)

    def _end(self, source: str, batches: int) -> None:
        self.api.end(source, batches, permit=self._permit(source))

    def _permit(self, source: str) -> str:
        return self._follower.latest().permits[source]

    def _wait(self, ready: Callable[[Status], bool]) -> Status:
        self._follower.hurry()
        while True:
            status = self._look_around()
            if ready(status):
                return status
            self._follower.wait_for_news(status, LOOK)

    def _look_around(self) -> Status:
        """Everything that could end the run early; raises if it does."""
        self._look()
        status = self._follower.latest()
        if status is not self._judged:
            self._judge(status)
            self._judged = status
        return status

    def _judge(self, status: Status) -> None:
        if status.failed is not None:
            raise RunFailed(status.failed)
        limit = self.plan.max_rejected
        if limit is not None and status.rejected > limit:
            if self._collector is not None:
                self._collector.write_rejected(status)
            raise TooManyRejected(
                f"{words_for_rows(status.rejected)} rejected, {limit:,} allowed (--max-rejected); "
                "the same command with a higher limit goes on from here"
            )
        if self._collector is not None:
            self._collector.look_at(status)
        self.display.moved(status)
        if status.stalled is not None:
            self._help(status)

    def _help(self, status: Status) -> None:
        """Tells of it once for each stretch of standing still; sends again what a stage lacks."""
        assert status.stalled is not None
        now = time.monotonic()
        if now - self._stall_told >= status.stalled.seconds:
            self._stall_told = now
            self.display.note(status.stalled.words())
        if now < self._help_at:
            return
        for each in self.plan.inputs:
            name = each.source.name
            length = status.source(name).of_batches
            places = [one for one in status.stalled.where if one["sender"] == f"gateway/{name}"]
            numbers = set(status.source(name).missing).union(*(one["missing"] for one in places))
            if length is None or not (places or numbers):
                continue
            # What was sent may get lost as well.
            self._help_at = time.monotonic() + HELP_AGAIN
            if any(one["of_batches"] is None for one in places):
                self._end(name, length)
            if numbers:
                self._send_again(each, sorted(numbers))

    def _send_again(self, each: Input, numbers: Sequence[int]) -> None:
        name = each.source.name
        with contextlib.closing(self._journal(each)) as journal:
            count = upload_again(
                each.path,
                journal,
                numbers,
                lambda number, data: self._put(name, number, data),
                delimiter=each.source.delimiter,
            )
        self.summary.resent += count
        self.display.note(f"sent {count} missing batches of {name} again")
