"""One run from the files to the answers, over HTTP: the same for `submit` and for `booksan run`."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Protocol, Self

from booksan_client.api import Api, ClientApi, Follower
from booksan_client.collect import AnswerDisplay, Collector, OutDirectory, Summary, words_for_rows
from booksan_client.inputs import Input
from booksan_client.state import ClientState, Journal, StateDirectory, fingerprint, surely_other
from booksan_client.upload import Doubts, Healer, Part, compare, put_batch, upload
from booksan_common.cutter import BATCH_BYTES, BATCH_LINES
from booksan_common.errors import FileChanged, RunFailed, RunGone, TooManyRejected
from booksan_common.params import ParamValue
from booksan_common.shapes import Dataset, Stall, Status

#: Seconds between two looks at everything but the server while something is waited for.
LOOK = 0.1
#: Times that one command begins a run anew which the server has lost.
NEW_BEGINNINGS = 2


class Display(AnswerDisplay, Protocol):
    """What a run tells while it goes."""

    @property
    def stages_every(self) -> float: ...
    def begin(self, inputs: Sequence[Input], resumed: bool) -> None: ...
    def sent_before(self, sent: Mapping[str, tuple[int, int]]) -> None: ...
    def uploaded(self, source: str, position: int, batches: int) -> None: ...
    def moved(self, status: Status) -> None: ...


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    dataset: Dataset
    inputs: Sequence[Input]
    params: dict[str, ParamValue]
    #: None: only the upload is done here; the answers stay at the server.
    out: OutDirectory | None
    format: str = "csv"
    max_rejected: int | None = None
    batch_bytes: int = BATCH_BYTES
    compress: str = "none"
    #: Whose answers are wanted; all without any.
    queries: Sequence[str] = ()


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
        self.look = look
        self.api: ClientApi = api.client(state.id, state.secret, state.ticket)
        self._settled = settled
        self.collector = None
        if plan.out is not None:
            self.collector = Collector(self.api, plan.out, plan.format, display, look, plan.queries)
        self.summary = self.collector.summary if self.collector else Summary()

    def to_the_end(self) -> Summary:
        """Everything, and anew if the server has lost the run; nobody else may use the api."""
        started = time.monotonic()
        self.summary.megabytes = sum(each.fingerprint["size"] for each in self.plan.inputs) / 1e6
        lost = 0
        while True:
            try:
                self._live()
                break
            except RunGone as error:
                if error.how or self.state.phase == "collected":
                    raise
                lost += 1
                if lost > NEW_BEGINNINGS:
                    raise RunFailed(
                        f"the server has lost the run {lost} times ({error})"
                    ) from error
                self._begin_anew(self.state.generation + 1)
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _live(self) -> None:
        """From what the server knows of the run to its end."""
        if self.state.ticket is None:
            # Without a ticket nothing of this generation can have been sent.
            self.directory.forget_journals()
            first = self._create()
        else:
            first = self.api.status()
        if first.generation > self.state.generation:
            self._begin_anew(first.generation)
            self.directory.forget_journals()
        self.note_ticket(first)
        with Generation(self, first) as life:
            for each in self.plan.inputs:
                life.send(each)
            life.settle()
            self._enter("uploaded")
            if self.collector is not None:
                self._collect(life, self.collector)

    def _create(self) -> Status:
        columns = {each.source.name: each.header.names for each in self.plan.inputs}
        return self.api.create(
            self.plan.dataset.name, self.plan.params, columns, self.state.generation
        )

    def _begin_anew(self, generation: int) -> None:
        """The number is on disk before it is used: it never means two beginnings."""
        self.display.note("the server has lost the run; sending everything again")
        self.state.generation = generation
        self.state.ticket = None
        self._enter("uploading")

    def note_ticket(self, status: Status) -> None:
        """For later commands."""
        if self.state.ticket != status.ticket:
            self.state.ticket = status.ticket
            self.directory.save(self.state)

    def _enter(self, phase: str) -> None:
        self.state.phase = phase
        self.directory.save(self.state)

    def _collect(self, life: "Generation", collector: Collector) -> None:
        collector.finish(life.wait(lambda status: status.done))
        self.state.summary = asdict(self.summary)
        self._enter("collected")
        self._settled()
        self.api.acknowledge()


class Generation:
    """One generation of a run: its journals, what the server says of it, and what it lacks."""

    def __init__(self, whole: Submission, first: Status) -> None:
        self.whole = whole
        self._plan = whole.plan
        self._display = whole.display
        self._judged: Status | None = None
        self._stall_told = -math.inf
        self._first = first

    def __enter__(self) -> Self:
        api = self.whole.api
        with ExitStack() as stack:
            self._parts = {each.source.name: self._part(each, stack) for each in self._plan.inputs}
            self._display.sent_before(
                {name: part.journal.sent() for name, part in self._parts.items()}
            )
            self._doubts = stack.enter_context(closing(Doubts()))
            for part in self._parts.values():
                if part.journal.doubtful:
                    self._doubts.about(part)
            #: Closed when an upload ends early, so that no batch of it waits any more.
            self._lane = api.apart()
            stack.callback(self._lane.caller.close)
            follower = Follower(api, self._first, stages_every=self._display.stages_every)
            self._follower = stack.enter_context(follower)
            self._healer = Healer(
                api, self._parts, self._display.note, self._look, self._plan.compress
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.whole.summary.resent += self._healer.resent
        self._stack.close()

    def send(self, each: Input) -> None:
        """One source, as soon as it may come."""
        name = each.source.name
        status = self.wait(lambda status: name in status.permits)
        length = status.source(name).of_batches
        if length is not None:
            # The home knows the end; that the others do is not certain after a power failure.
            self._healer.end(name, length)
            return
        part = self._parts[name]
        self.whole.summary.resent += len(part.journal.entries) - len(part.journal.taken)
        self._follower.calm_down()
        for sent in upload(
            each.path,
            each.header,
            part.journal,
            lambda number, data: put_batch(self._lane, name, number, data, self._plan.compress),
            self._look_around,
            give_up=self._lane.caller.close,
            delimiter=each.source.delimiter,
        ):
            self._display.uploaded(name, sent.end, sent.number + 1)
        self._check_unchanged(each, part)
        self._healer.end(name, len(part.journal.entries))

    def settle(self) -> None:
        """All files still hold what was sent of them; raises if one does not."""
        self._doubts.settle(self._look_around)

    def wait(self, ready: Callable[[Status], bool]) -> Status:
        self._follower.hurry()
        while True:
            status = self._look_around()
            if ready(status):
                return status
            self._follower.wait_for_news(status, LOOK)

    def _part(self, each: Input, stack: ExitStack) -> Part:
        cut = {"batch_bytes": self._plan.batch_bytes, "batch_lines": BATCH_LINES}
        path = self.whole.directory.journal(each.source.name)
        journal = stack.enter_context(closing(Journal(path, dict(each.fingerprint), cut)))
        return Part(each.path, each.source.delimiter, journal)

    def _check_unchanged(self, each: Input, part: Part) -> None:
        """It may have been changed while it was read, or only have been touched."""
        self.settle()
        found = fingerprint(each.path)
        if surely_other(each.fingerprint, found):
            raise FileChanged(each.path)
        if found != each.fingerprint:
            compare(part.path, part.journal, self._look_around, delimiter=part.delimiter)

    def _look_around(self) -> Status:
        """Everything that could end the run early; raises if it does."""
        status = self._look()
        if status is not self._judged:
            self._judged = status
            self._judge(status)
        return status

    def _look(self) -> Status:
        self.whole.look()
        status = self._follower.latest()
        if status.failed is not None:
            raise RunFailed(status.failed)
        return status

    def _judge(self, status: Status) -> None:
        self._check_rejected(status)
        self.whole.note_ticket(status)
        # Answers to a file that may have been changed are none.
        if self.whole.collector is not None and self._doubts.settled():
            self.whole.collector.look_at(status)
        self._display.moved(status)
        if status.stall is not None:
            self._tell_stall(status.stall)
        self._healer.heal(status)

    def _check_rejected(self, status: Status) -> None:
        limit = self._plan.max_rejected
        if limit is None or status.rejected <= limit:
            return
        if self.whole.collector is not None:
            self.whole.collector.write_rejected(status)
        raise TooManyRejected(
            f"{words_for_rows(status.rejected)} rejected, {limit:,} allowed (--max-rejected); "
            "the same command with a higher limit goes on from here"
        )

    def _tell_stall(self, stall: Stall) -> None:
        """Once for each stretch of standing still."""
        now = time.monotonic()
        if now - self._stall_told >= stall.seconds:
            self._stall_told = now
            self._display.note(stall.words())
