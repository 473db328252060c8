"""What `booksan run` shows: bars on a terminal, a few lines elsewhere, answers as tables."""

import math
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from booksan.answers import Row
from booksan.home import HomeStatus
from booksan.inspection import StreamProgress
from booksan.inspection import progress as stage_progress
from booksan.local.inputs import Input
from booksan.spec import ParamValue, Spec
from booksan.stages.graph import Query
from booksan_client.cutter import BATCH_BYTES

#: Rows of an answer that are shown; all of them are in the file.
ROWS_SHOWN = 10
#: Seconds between two refreshes of the bars: reading all stages' databases is not free.
REFRESH = 0.25

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class PatientConsole(Console):
    """Falls silent when its output cannot be written: the run and its files matter more."""

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except OSError:
            self._fall_silent()

    def on_broken_pipe(self) -> None:
        """Instead of ending the process, which rich does."""
        self._fall_silent()

    def _fall_silent(self) -> None:
        self.quiet = True
        mute(self.file)


def mute(stream: IO[str]) -> None:
    """Lets a stream that cannot be written any more be flushed without an error at exit."""
    with Path(os.devnull).open("w") as sink:
        os.dup2(sink.fileno(), stream.fileno())


@dataclass
class _Pace:
    """Bytes per second from the first movement of a task to its latest."""

    first_time: float = 0.0
    first_bytes: int = 0
    last_time: float = 0.0
    last_bytes: int = 0

    def moved_to(self, position: int) -> None:
        if position == self.last_bytes:
            return
        self.last_time, self.last_bytes = time.monotonic(), position
        if not self.first_time:
            self.first_time, self.first_bytes = self.last_time, position

    @property
    def megabytes_per_second(self) -> float:
        elapsed = self.last_time - self.first_time
        return (self.last_bytes - self.first_bytes) / elapsed / 1e6 if elapsed else 0.0


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.fields["pace"].megabytes_per_second
        # Stages that only count rows move next to no bytes.
        return Text(f"{speed:.1f} MB/s" if speed >= 0.05 else "", style="progress.data.speed")


@dataclass
class _StageTotals:
    """What all shards of a stage have taken so far."""

    batches: int = 0
    of_batches: int = 0
    rows: int = 0
    bytes: int = 0

    def add(self, stream: StreamProgress, expected: int) -> None:
        self.batches += stream.batches
        self.of_batches += max(expected, stream.batches)
        self.rows += stream.rows
        self.bytes += stream.bytes


class RunDisplay:
    """Progress goes to `err`; answers go to `out`, or nowhere if it is None."""

    def __init__(self, err: Console, out: Console | None, params: dict[str, ParamValue]) -> None:
        self.err = err
        self.out = out
        self.params = params
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._batches: dict[str, int] = {}
        self._next = 0.0

    def begin(self, inputs: Sequence[Input], resumed: bool) -> None:
        if resumed:
            self.note("going on where the last run of the same files and parameters stopped")
        if not self.err.is_terminal:
            return
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[detail]}"),
            _Speed(),
            TimeRemainingColumn(),
            console=self.err,
            transient=True,
        )
        for each in inputs:
            name = each.source.name
            self._batches[name] = math.ceil((each.size or 0) / BATCH_BYTES)
            self._tasks[name] = self._bars.add_task(
                f"upload {name}", total=each.size, detail="", pace=_Pace()
            )
        self._bars.start()

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()

    def uploaded(self, source: str, offset: int) -> None:
        if self._bars is not None:
            self._move(self._bars, source, offset, bytes=offset)

    def moved(self, root: Path, spec: Spec, status: HomeStatus) -> None:
        if self._bars is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REFRESH
        for name, source in status.sources.items():
            rejected = f", {source.rejected:,} rejected" if source.rejected else ""
            self._bars.update(self._tasks[name], detail=f"{source.rows:,} rows{rejected}")
        totals = self._totals(root, spec)
        for stage in spec.shards:
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(stage, detail="", pace=_Pace(), total=None)
            if stage in totals:
                found = totals[stage]
                detail = f"{found.rows:,} rows"
                self._bars.update(self._tasks[stage], total=found.of_batches, detail=detail)
                self._move(self._bars, stage, found.batches, bytes=found.bytes)

    def _move(self, bars: Progress, name: str, completed: int, *, bytes: int) -> None:
        task = self._tasks[name]
        bars.tasks[task].fields["pace"].moved_to(bytes)
        bars.update(task, completed=completed)

    def _totals(self, root: Path, spec: Spec) -> dict[str, _StageTotals]:
        streams = list(stage_progress(root, spec.client))
        with_database = {stream.stage for stream in streams}
        totals: dict[str, _StageTotals] = {}
        for stream in streams:
            sender, _, origin = stream.sender.partition("/")
            expected = stream.of_batches
            if expected is None:
                expected = self._batches.get(origin, 1)
            # A stage without a database is as far as the next one has heard from it.
            silent = sender in spec.shards and sender not in with_database
            for stage in (stream.stage, sender) if silent else (stream.stage,):
                totals.setdefault(stage, _StageTotals()).add(stream, expected)
        return totals

    def answer(self, query: Query, rows: Sequence[Row], path: Path) -> None:
        if self.out is None:
            return
        about = f"{query.name}: {query.describe(self.params)}"
        if not rows:
            self._tell(f"{about}: none")
            return
        table = Table()
        for name, kind in query.columns.items():
            table.add_column(name, justify="left" if kind.sql == "TEXT" else "right")
        for row in rows[:ROWS_SHOWN]:
            table.add_row(*(_shown(value) for value in row))
        more = f"and {len(rows) - ROWS_SHOWN:,} more in " if len(rows) > ROWS_SHOWN else ""
        self._tell(about)
        self.out.print(table)
        self._tell(f"{more}{path}\n")

    def _tell(self, text: str) -> None:
        """A line is never wrapped, so that a path in it can be copied."""
        if self.out is not None:
            self.out.print(Text(text), soft_wrap=True)

    def note(self, text: str) -> None:
        self.err.print(Text(f"booksan: {text}"), soft_wrap=True)


def _shown(value: object) -> Text:
    """Data must not steer the terminal; the file has it as it is."""
    return Text(_CONTROL.sub(" ", str(value)))
