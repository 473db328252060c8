"""What a run shows: bars on a terminal, a few lines elsewhere, answers as tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from booksan_client.api import STAGES
from booksan_client.inputs import Input
from booksan_client.progress import Pace, RunProgress, Upload, in_words
from booksan_common.shapes import Answer, StageStatus, Status
from booksan_common.terminal import (
    Column,
    FittedTable,
    Painting,
    is_live,
    plain,
    print_lines,
    same_terminal,
    shown,
)

# The part of a terminal that is painted again and again while a run goes.

#: Cells of a bar at most, and at least: where there is less room there are none.
WIDEST, NARROWEST = 40, 8
#: Cells that stay free at the end of lines, where the terminal shows a ^C.
FREE = 3
#: The share of the terminal's lines that bars may take; the others are for answers.
SHARE = 0.5


@dataclass(frozen=True)
class Line:
    name: str
    #: None: there is no bar, because nobody knows how much it will be.
    fraction: float | None
    detail: str
    #: The highest are left out first where there are too many.
    rank: int = 0


class Bars:
    """One line for the whole and one for each part, as many as the terminal has room for."""

    def __init__(self, head: Callable[[], Line]) -> None:
        """`head` is asked for at each painting, in the thread that paints."""
        self._head = head
        #: Replaced as a whole by the thread that works.
        self.lines: Sequence[Line] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(2, int(console.height * SHARE) - 1)
        lines = [self._head(), *_most_telling(self.lines, room)]
        texts = [(Text(plain(line.name)), Text(plain(line.detail))) for line in lines]
        names = max(name.cell_len for name, _ in texts)
        details = max(detail.cell_len for _, detail in texts)
        width = options.max_width - FREE
        bar = min(WIDEST, width - names - details - 2)
        for line, (name, detail) in zip(lines, texts, strict=True):
            name.pad_right(names - name.cell_len + 1)
            if bar >= NARROWEST:
                name.append_text(_bar(line.fraction, bar, console, options)).append(" ")
            name.append_text(detail).truncate(max(1, width))
            yield name


def _most_telling(lines: Sequence[Line], room: int) -> Sequence[Line]:
    """So many of them in their order, and a word about the others."""
    if len(lines) <= room:
        return lines
    # The last of the lines is for that word.
    ranked = sorted(lines, key=lambda line: line.rank)[: room - 1]
    others = len(lines) - len(ranked)
    return [*(line for line in lines if line in ranked), Line(f"and {others} more", None, "")]


def _bar(fraction: float | None, width: int, console: Console, options: ConsoleOptions) -> Text:
    if fraction is None:
        return Text(" " * width)
    whole, half = divmod(int(2 * width * fraction), 2)
    sign, end = ("-", " ") if options.ascii_only else ("━", "╸")
    bar = Text(sign * whole + end * half, "bar.finished" if fraction >= 1 else "bar.complete")
    rest = width - whole - half
    # Without colours the rest would look like the beginning.
    coloured = not (console.no_color or console.color_system is None or options.ascii_only)
    return bar.append(sign * rest, "bar.back") if coloured else bar.append(" " * rest)


# What a run shows: bars on a terminal, a few lines elsewhere, answers as tables.

#: Seconds between two statuses with all stages, for bars.
PAINTED = 0.5
#: Seconds between two lines about the whole run where there are no bars.
TOLD = 10.0
#: Decimals of a number on the screen, and of one from a hundred on.
DECIMALS, FEW_DECIMALS, MANY = 4, 2, 100
#: From here on a number is shown with its exponent.
HUGE = 1e15
#: Cells to which texts in answers may be narrowed.
NARROW = 12
#: Inputs of a waiting stage that are named.
FIRST = 2

# Which lines are left out first when there are too many.
_AT_WORK, _WAITING, _DONE = range(3)


class RunDisplay:
    """Progress goes to `err`; answers go to `out`, or nowhere if it is None.

    Where both are one terminal, answers go through `err` too: only the console that paints the
    bars can print above them.
    """

    def __init__(self, err: Console, out: Console | None, *, quiet: bool = False) -> None:
        """`quiet`: nothing at all is shown; errors are the caller's."""
        self.err = err
        self.out = err if out is not None and same_terminal(err, out) else out
        self._quiet = quiet
        self._progress = RunProgress({})
        self._bars = Bars(self._whole)
        self._live: Painting | None = None
        self._told_at = 0.0
        #: Whether it is known what an earlier process has sent.
        self._placed = False

    @property
    def stages_every(self) -> float:
        """Seconds between two statuses with all stages."""
        if self._quiet:
            return STAGES
        return PAINTED if is_live(self.err) else TOLD

    @property
    def shows_answers(self) -> bool:
        return self.out is not None and not self._quiet

    def begin(self, inputs: Sequence[Input], resumed: bool) -> None:
        if resumed:
            self.note("going on where the last run of the same files and parameters stopped")
        self._progress = RunProgress({each.source.name: each.size for each in inputs})
        if is_live(self.err) and not self._quiet:
            self._live = Painting(self.err, self._bars, transient=True)
            self._live.start()
            self._changed()

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()

    def sent_before(self, sent: Mapping[str, tuple[int, int]]) -> None:
        """What an earlier process has sent of each source, in bytes and batches."""
        self._progress.sent_before(sent)
        self._placed = True
        self._changed()

    def uploaded(self, source: str, position: int, batches: int) -> None:
        self._progress.sent(source, position, batches)
        self._changed()

    def moved(self, status: Status) -> None:
        self._progress.take(status)
        self._changed()

    def _changed(self) -> None:
        """What is painted is made here, in the thread that works."""
        progress = self._progress
        if self._live is not None:
            placed = self._placed or progress.status is not None
            known = progress.uploads if placed else {}
            uploads = [self._upload(name, each) for name, each in known.items()]
            stages = [self._stage(name, each) for name, each in progress.stages.items()]
            self._bars.lines = [*uploads, *stages]
        elif progress.seconds - self._told_at >= TOLD:
            self._told_at = progress.seconds
            self.note("; ".join((in_words(progress), *_counts(progress.status))))

    def _whole(self) -> Line:
        return Line("whole run", self._progress.fraction, in_words(self._progress))

    def _upload(self, name: str, upload: Upload) -> Line:
        status, title = self._progress.status, f"upload {name}"
        if not upload.position and status is not None and name not in status.permits:
            names = list(self._progress.uploads)
            earlier = ", ".join(names[: names.index(name)])
            return Line(title, None, f"waiting for {earlier}", _WAITING)
        found = status.source(name) if status else None
        rows = f"{found.rows if found else 0:,} rows"
        rejected = f", {found.rejected:,} rejected" if found and found.rejected else ""
        if upload.fraction is None:
            more = f" so far, of a compressed file{_speed(upload.pace)}"
            return Line(title, None, f"{rows}{rejected}{more}")
        if upload.of_batches is not None:
            return Line(title, 1.0, f"{rows}{rejected}", _DONE)
        return Line(title, upload.fraction, f"{rows}{rejected}{_speed(upload.pace)}")

    def _stage(self, name: str, stage: StageStatus) -> Line:
        fraction, rows = stage.fraction, f"{stage.rows:,} rows"
        if stage.done:
            return Line(name, 1.0, rows, _DONE)
        speed = _speed(self._progress.paces[name])
        if fraction is not None:
            return Line(name, fraction, f"{rows}{speed}")
        if stage.batches:
            return Line(name, None, f"{rows} so far{speed}")
        inputs = f" for {_first(stage.inputs)}" if stage.inputs else ""
        return Line(name, None, f"waiting{inputs}", _WAITING)

    def answer(self, page: Answer, path: Path) -> None:
        if self.out is None or self._quiet:
            return
        about = f"{page.query}: {page.about}"
        parts: list[RenderableType] = [shown(about)]
        if not page.rows:
            parts = [shown(f"{about}: none")]
        else:
            table, rounded = _table(page, path)
            hidden = page.total - len(page.rows)
            words = [f"and {hidden:,} more"] * (hidden > 0) + ["with all digits"] * rounded
            parts += [table, shown(f"{_listed(words)} in {path}" if words else path), ""]
        # At once, so that nothing comes between.
        print_lines(self.out, *parts)

    def note(self, text: str) -> None:
        if not self._quiet:
            print_lines(self.err, shown(f"booksan: {text}"))


def _first(names: Sequence[str]) -> str:
    """A stage that reads nearly all of them must leave room for the bars."""
    more = len(names) - FIRST
    return ", ".join(names[:FIRST]) + (f" and {more} more" if more > 0 else "")


def _listed(words: Sequence[str]) -> str:
    return ", ".join([*words, ""]).rstrip() if len(words) > 1 else "".join(words)


def _counts(status: Status | None) -> list[str]:
    """For a line: the rows and the answers so far."""
    if status is None:
        return []
    rows = ", ".join(f"{each.rows:,} {name}" for name, each in status.sources.items())
    complete = sum(each.complete for each in status.answers.values())
    return [rows, f"{complete} of {len(status.answers)} answers"]


def _speed(pace: Pace) -> str:
    """Stages that only count rows move next to no bytes."""
    speed = pace.per_second / 1e6
    return f", {speed:.1f} MB/s" if speed >= 0.05 else ""


def _table(page: Answer, path: Path) -> tuple[FittedTable, bool]:
    """The rows, and whether any number of them was rounded."""
    numbers = ("INTEGER", "REAL", "DECIMAL")
    columns = [
        Column(name, rank, kind in numbers, 0 if kind in (*numbers, "DURATION") else NARROW)
        for rank, (name, kind) in enumerate(page.columns.items())
    ]
    table = FittedTable(*columns, elsewhere=str(path))
    rounded = {
        name: for_people([row.get(name) for row in page.rows])
        for name, kind in page.columns.items()
        if kind in ("REAL", "DECIMAL")
    }
    for place, row in enumerate(page.rows):
        table.add_row(
            *(rounded[name][place] if name in rounded else row.get(name) for name in page.columns)
        )
    cut = any(
        str(row.get(name)) != cells[place]
        for name, cells in rounded.items()
        for place, row in enumerate(page.rows)
    )
    return table, cut


def for_people(values: Sequence[Any]) -> list[str]:
    """The numbers of a column with the same few decimals; what is no number stays as it is.

    Integers are left alone: many are ids or years.
    """
    finite = [value for value in values if _is_finite(value)]
    most = FEW_DECIMALS if any(abs(value) >= MANY for value in finite) else DECIMALS
    decimals = min(most, max(map(_decimals, finite), default=0))
    return [_rounded(each, decimals) if _is_finite(each) else str(each) for each in values]


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _decimals(value: float) -> int:
    exponent = Decimal(repr(value)).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _rounded(value: float, decimals: int) -> str:
    """What would be rounded to nothing keeps its first digits."""
    tiny = value and not round(value, decimals)
    return f"{value:.3g}" if tiny or abs(value) >= HUGE else f"{value:.{decimals}f}"
