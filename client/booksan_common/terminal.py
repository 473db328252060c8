"""All that is shown to a person goes through here: data must never steer the terminal."""

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from booksan_common.names import STEERING
from booksan_common.names import plain as plain

#: Columns of what is no terminal, where nothing has to fit: more than any table has.
ENDLESS = 100_000

#: Variables of terminals that break long lines anew when the window gets narrower.
REFLOWING = (
    "VTE_VERSION",
    "KONSOLE_VERSION",
    "KITTY_WINDOW_ID",
    "ALACRITTY_WINDOW_ID",
    "WEZTERM_PANE",
    "WT_SESSION",
    "ITERM_SESSION_ID",
)

_STEERING_IN_LINES = re.compile(f"(?!\n){STEERING.pattern.removesuffix('+')}")


def shown(value: object, style: str = "") -> Text:
    """A value of any kind as a cell, or a line."""
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return Text(plain(value), style)


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{rest} s"


def say(text: object, *, err: bool = False) -> None:
    """One line, for commands that show no more than that."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{plain(text)}\n")
    stream.flush()


class PatientConsole(Console):
    """The only console: what is printed on it cannot steer the terminal, and is no markup.

    It falls silent when its output cannot be written: the run and its files matter more.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False} | options)
        #: Held while something is printed or painted: the place of one depends on the other.
        self.whole = threading.RLock()
        if "width" not in options and not self.is_terminal:
            self.width = ENDLESS

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Colours and movements are rich's own and no part of any text."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                text = _STEERING_IN_LINES.sub(" ", segment.text)
                yield segment if text == segment.text else Segment(text, segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            with self.whole:
                super().print(*objects, **options)
        except OSError:
            self._fall_silent()

    def on_broken_pipe(self) -> None:
        """Instead of ending the process, which rich does."""
        self._fall_silent()

    def _fall_silent(self) -> None:
        self.quiet = True
        mute(self.file)


def print_lines(console: Console, *parts: RenderableType) -> None:
    """All at once; texts are wrapped between words only, so that a path can be copied."""
    wrapped = (_Words(part) if isinstance(part, Text) else part for part in parts)
    console.print(Group(*wrapped), overflow="ignore", crop=False)


class _Words:
    """A text in lines that end between words; one that is longer than a line stays whole."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        places, start, end = [], 0, 0
        for word in re.finditer(r"\S+", self._text.plain):
            line = self._text[start : word.end()]
            if start < word.start() and line.cell_len > options.max_width and end:
                places.append(start := word.start())
            end = word.end()
        for line in self._text.divide(places):
            line.rstrip()
            yield line


def is_live(console: Console) -> bool:
    """Whether lines can be painted over: on a terminal, and not where colours are only wanted."""
    return console.file.isatty() and not console.is_dumb_terminal


def reflows(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal is known to break painted lines anew when it gets narrower."""
    if "TMUX" in environ:
        return True
    # Within GNU screen, the variables are those of the terminal around it.
    return "STY" not in environ and any(name in environ for name in REFLOWING)


class Painting(Live):
    """What is painted over again and again, also when the window has got another width."""

    def __init__(
        self, console: Console, renderable: RenderableType | None = None, **options: Any
    ) -> None:
        super().__init__(renderable, console=console, **options)
        if isinstance(console, PatientConsole):
            self._lock = console.whole
        self._live_render = _Painted(self.get_renderable(), console)


class _Painted(LiveRender):
    """Knows how many lines of the terminal its own lines take now.

    Where that cannot be known it goes up too little rather than too much: what is above stays.
    """

    def __init__(self, renderable: RenderableType, console: Console) -> None:
        super().__init__(renderable)
        self._console = console
        self._widths: Sequence[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        segments = list(super().__rich_console__(console, options))
        lines = Segment.split_lines(each for each in segments if isinstance(each, Segment))
        self._widths = [Segment.get_line_length(line) for line in lines]
        yield from segments

    def position_cursor(self) -> Control:
        self._measure()
        return super().position_cursor()

    def restore_cursor(self) -> Control:
        self._measure()
        return super().restore_cursor()

    def _measure(self) -> None:
        if self._shape is not None and reflows():
            room = max(1, self._console.width)
            height = sum(max(1, -(-width // room)) for width in self._widths)
            self._shape = (self._shape[0], height)


class Screenful:
    """Parts one below the other, with rows of tables left out where the terminal is too short."""

    def __init__(self, *parts: RenderableType) -> None:
        self._parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = list(self._parts)
        # One line is for the cursor.
        room = max(1, console.height - 1)
        while (excess := self._height(parts, console, options) - room) > 0:
            if not _shorten(parts, excess):
                break
        yield Group(*parts)

    def _height(
        self, parts: Sequence[RenderableType], console: Console, options: ConsoleOptions
    ) -> int:
        return len(console.render_lines(Group(*parts), options, pad=False))


def _shorten(parts: list[RenderableType], excess: int) -> bool:
    """The longest table by so many rows; where all are short, without the last part."""
    tables = [each for each in parts if isinstance(each, FittedTable) and len(each.rows) > 1]
    if tables:
        longest = max(tables, key=lambda table: len(table.rows))
        parts[parts.index(longest)] = longest.only(max(1, len(longest.rows) - excess))
        return True
    if len(parts) > 1:
        parts.pop()
        return True
    return False


def same_terminal(one: Console, other: Console) -> bool:
    """Whether what one writes moves what the other has painted."""
    if not (is_live(one) and is_live(other)):
        return False
    if one.file is other.file:
        return True
    found = {os.fstat(each.file.fileno()).st_rdev for each in (one, other)}
    # The other name of whichever terminal the process has.
    return len(found) == 1 or Path("/dev/tty").stat().st_rdev in found


@dataclass(frozen=True)
class Column:
    """A column of a table; what is in it is never cut."""

    name: str
    #: The highest are left out first where there is no room; 0 never is.
    rank: int = 0
    #: Numbers stand to the right.
    right: bool = False
    #: Cells to which sentences may be narrowed; 0 for names, ids and numbers, which stay in one
    #: piece as long as they can.
    wraps: int = 0


class FittedTable:
    """A table that leaves columns out where the terminal is too narrow, and says which."""

    def __init__(
        self,
        *columns: Column,
        elsewhere: str = "--json",
        look: box.Box = box.HEAVY_HEAD,
        gap: int = 1,
    ) -> None:
        """`elsewhere` has the columns that were left out, whatever the width."""
        self.columns = columns
        self.rows: list[tuple[Text, ...]] = []
        self._ranks: list[int] = []
        self._hidden = 0
        self._elsewhere = elsewhere
        self._look = look
        self._gap = gap

    def add_row(self, *cells: object, rank: int = 0) -> None:
        """Rows with the highest rank are left out first where there are too many."""
        self.rows.append(tuple(cell if isinstance(cell, Text) else shown(cell) for cell in cells))
        self._ranks.append(rank)

    def only(self, count: int) -> "FittedTable":
        """The same with so many rows, and a word about the others."""
        table = FittedTable(
            *self.columns, elsewhere=self._elsewhere, look=self._look, gap=self._gap
        )
        ranked = sorted(range(len(self.rows)), key=lambda place: self._ranks[place])[:count]
        for place in sorted(ranked):
            table.add_row(*self.rows[place], rank=self._ranks[place])
        table._hidden = self._hidden + len(self.rows) - len(table.rows)
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept = list(self.columns)
        while not (fits := self._fits(kept, console, options)):
            dropped = max(reversed(kept), key=lambda column: column.rank)
            if not dropped.rank:
                break
            kept.remove(dropped)
        yield self._table(kept, fold=not fits)
        yield from self._left_out(kept)

    def _left_out(self, kept: Sequence[Column]) -> Iterator[RenderableType]:
        if self._hidden:
            yield shown(f"and {self._hidden:,} more: a taller window has them")
        if left_out := [column.name for column in self.columns if column not in kept]:
            names, they = ", ".join(left_out), "it" if len(left_out) == 1 else "them"
            yield shown(f"no room for {names}: a wider window has {they}, or {self._elsewhere}")

    def _fits(self, kept: Sequence[Column], console: Console, options: ConsoleOptions) -> bool:
        endless = options.update(width=ENDLESS)
        table = self._table(kept, fold=False)
        return Measurement.get(console, endless, table).minimum <= options.max_width

    def _table(self, kept: Sequence[Column], *, fold: bool) -> Table:
        table = Table(box=self._look, padding=(0, self._gap), pad_edge=self._look is box.HEAVY_HEAD)
        places = [self.columns.index(column) for column in kept]
        for column, place in zip(kept, places, strict=True):
            table.add_column(
                shown(column.name),
                justify="right" if column.right else "left",
                min_width=None if fold else self._least(column, place),
                no_wrap=not (column.wraps or fold),
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(row[place] for place in places))
        return table

    def _least(self, column: Column, place: int) -> int:
        """Cells that a column needs; what stays in one piece may have spaces too."""
        lines = (line.cell_len for row in self.rows for line in row[place].split())
        widest = max(lines, default=0)
        return min(column.wraps, widest) if column.wraps else max(widest, cell_len(column.name))


def mute(stream: IO[str]) -> None:
    """Lets a stream that cannot be written any more be flushed without an error at exit."""
    with Path(os.devnull).open("w") as sink:
        os.dup2(sink.fileno(), stream.fileno())
