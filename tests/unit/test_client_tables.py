"""Tables fit into any terminal: columns are left out, what stays is whole, also above bars."""

import io
import threading
from collections.abc import Iterator

import pyte
import pytest
from rich.console import Console, ConsoleOptions, RenderableType

from booksan_common.terminal import Column, FittedTable, Painting, PatientConsole, Screenful
from tests.support.screen import check_tables

ROWS = [
    ("q5-sentiment.0", "running", "1 min 24 s", "103 MB", "a sentence of some length"),
    ("q3-join.0", "running", "9 h 7 min", "55 MB", ""),
    ("results.0", "stopped", "0 s", "30 MB", ""),
]


def table() -> FittedTable:
    found = FittedTable(
        Column("worker"),
        Column("state"),
        Column("up", 2, right=True),
        Column("all memory", 1, right=True),
        Column("what it says", 3, wraps=8),
    )
    for row in ROWS:
        found.add_row(*row, rank=int(row[1] == "running"))
    return found


def drawn(part: RenderableType, width: int, height: int = 50) -> str:
    console = PatientConsole(file=io.StringIO(), width=width, height=height)
    console.print(part)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines()), text
    return text


@pytest.mark.parametrize("width", range(30, 100))
def test_what_stays_in_one_piece_is_shown_whole_or_left_out_with_a_word(width: int) -> None:
    text = drawn(table(), width)
    assert check_tables(text) == 1
    words = " ".join(text.split())
    left_out = words.partition("no room for ")[2].partition(":")[0].split(", ")
    for place, name in enumerate(("worker", "state", "up", "all memory")):
        for row in ROWS:
            assert (row[place] in words) == (name not in left_out), text


def test_several_columns_are_told_as_several() -> None:
    assert "no room for what it says: a wider window has it, or" in _joined(60)
    assert "no room for up, what it says: a wider window has them, or" in _joined(50)


def _joined(width: int) -> str:
    return " ".join(drawn(table(), width).split())


def test_a_short_window_shows_the_rows_that_matter_most() -> None:
    text = drawn(Screenful(table()), 100, height=7)
    assert check_tables(text) == 1
    assert "results.0" in text
    assert "q3-join.0" not in text
    assert "and 2 more: a taller window has them" in text


class Slow:
    """While it is printed, somebody else wants to paint."""

    def __init__(self, painter: threading.Thread) -> None:
        self._painter = painter

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[str]:
        self._painter.start()
        self._painter.join(0.2)
        yield "answer"


def test_bars_that_grow_while_an_answer_is_printed_stay_below_it() -> None:
    console = PatientConsole(
        file=io.StringIO(), width=40, height=10, force_terminal=True, legacy_windows=False
    )
    bars = Painting(console, auto_refresh=False, transient=True)
    bars.start()
    grown = threading.Thread(target=lambda: bars.update("one\ntwo\nthree", refresh=True))
    console.print(Slow(grown))
    grown.join()
    assert _on_screen(console) == ["answer", "one", "two", "three"]
    bars.stop()
    assert _on_screen(console) == ["answer"]


def _on_screen(console: Console) -> list[str]:
    screen = pyte.Screen(40, 10)
    written: str = console.file.getvalue()  # type: ignore[attr-defined]
    pyte.Stream(screen).feed(written.replace("\n", "\r\n"))
    return [line.rstrip() for line in screen.display if line.strip()]
