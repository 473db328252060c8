"""What a run shows: bars on a terminal, a few lines elsewhere, answers as tables."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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

from booksan_client.api import Page
from booksan_client.inputs import Input
from booksan_client.status import StageStatus, Status
from booksan_client.terminal import plain, shown


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


class RunDisplay:
    """Progress goes to `err`; answers go to `out`, or nowhere if it is None."""

    def __init__(self, err: Console, out: Console | None) -> None:
        self.err = err
        self.out = out
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    @property
    def shows_stages(self) -> bool:
        return self.err.is_terminal

    @property
    def shows_answers(self) -> bool:
        return self.out is not None

    def begin(self, inputs: Sequence[Input], resumed: bool) -> None:
        if resumed:
            self.note("going on where the last run of the same files and parameters stopped")
        if not self.err.is_terminal:
            return
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            _Speed(),
            TimeRemainingColumn(),
            console=self.err,
            transient=True,
        )
        for each in inputs:
            self._add(self._bars, each.source.name, f"upload {each.source.name}", each.size)
        self._bars.start()

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()

    def uploaded(self, source: str, offset: int) -> None:
        if self._bars is not None:
            self._move(self._bars, source, offset, bytes=offset)

    def moved(self, status: Status) -> None:
        if self._bars is None:
            return
        for name, source in status.sources.items():
            rejected = f", {source.rejected:,} rejected" if source.rejected else ""
            if name in self._tasks:
                self._bars.update(self._tasks[name], detail=f"{source.rows:,} rows{rejected}")
        for name, stage in status.stages.items():
            self._show_stage(self._bars, f"stage {name}", name, stage)

    def _show_stage(self, bars: Progress, key: str, name: str, stage: StageStatus) -> None:
        if key not in self._tasks:
            self._add(bars, key, name, None)
        bars.update(self._tasks[key], total=stage.of_batches, detail=f"{stage.rows:,} rows")
        self._move(bars, key, stage.batches, bytes=stage.bytes)

    def _add(self, bars: Progress, key: str, title: str, total: int | None) -> None:
        self._tasks[key] = bars.add_task(plain(title), total=total, detail="", pace=_Pace())

    def _move(self, bars: Progress, key: str, completed: int, *, bytes: int) -> None:
        task = self._tasks[key]
        bars.tasks[task].fields["pace"].moved_to(bytes)
        bars.update(task, completed=completed)

    def answer(self, page: Page, path: Path) -> None:
        if self.out is None:
            return
        about = f"{page.query}: {page.about}"
        if not page.rows:
            self._tell(f"{about}: none")
            return
        table = Table()
        for name, kind in page.columns.items():
            table.add_column(
                shown(name), justify="right" if kind in ("INTEGER", "REAL", "DECIMAL") else "left"
            )
        for row in page.rows:
            table.add_row(*(shown(row.get(name)) for name in page.columns))
        hidden = page.total - len(page.rows)
        more = f"and {hidden:,} more in " if hidden > 0 else ""
        self._tell(about)
        self.out.print(table)
        self._tell(f"{more}{path}")
        self.out.print()

    def _tell(self, text: str) -> None:
        """A line is never wrapped, so that a path in it can be copied."""
        if self.out is not None:
            self.out.print(shown(text), soft_wrap=True)

    def note(self, text: str) -> None:
        self.err.print(shown(f"booksan: {text}"), soft_wrap=True)
