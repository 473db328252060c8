"""A terminal shows bars, a file gets a few lines, and data never steers either."""

import io
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console, Group

from booksan_client.display import PAINTED, TOLD, RunDisplay
from booksan_client.inputs import Input
from booksan_client.watch import document, picture
from booksan_common.cutter import Header
from booksan_common.shapes import (
    Answer,
    Dataset,
    SourceStatus,
    StageStatus,
    Stall,
    Status,
    Stream,
)
from tests.unit.fake_gateway import DATASET

SOURCES = {
    "nests": SourceStatus(2, 2, 1_200, 3, True),
    "eggs": SourceStatus(1, None, 40, 0, False, (0,)),
}
STAGES = {"q1-sum": StageStatus(2, 3, 9, 5_000, 7_000_000, False)}
STALL = Stall(130, (Stream("q1-sum", 1, "gateway/eggs", 1, 2, (0,)),))


def status(state: str = "uploading", failed: str | None = None) -> Status:
    return Status(
        id="birds-1",
        dataset="birds",
        params={},
        version="1",
        state=state,
        failed=failed,
        expires=0,
        ticket="the ticket",
        permits={"nests": "the permit"},
        sources=SOURCES,
        answers={},
        stages=STAGES,
        stalled=STALL,
    )


class Paper(io.StringIO):
    """A terminal that keeps everything."""

    def isatty(self) -> bool:
        return True


def console(*, terminal: bool) -> Console:
    file = Paper() if terminal else io.StringIO()
    return Console(file=file, width=120, height=40, color_system=None, _environ={})


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def inputs() -> list[Input]:
    sources = msgspec.convert(DATASET, Dataset).sources
    return [Input(each, Path(each.file_name), Header((), 0), {}, 1_000) for each in sources]


def test_a_terminal_shows_uploads_and_stages(inputs: list[Input]) -> None:
    err = console(terminal=True)
    display = RunDisplay(err, None)
    assert display.stages_every == PAINTED
    display.begin(inputs, resumed=True)
    display.uploaded("nests", 500, 1)
    display.moved(status())
    display.close()
    seen = text_of(err)
    for words in ("upload nests", "upload eggs", "q1-sum", "1,200 rows, 3 rejected", "going on"):
        assert words in seen


def test_a_stage_that_waits_for_many_names_two_and_leaves_room_for_bars(
    inputs: list[Input],
) -> None:
    err = console(terminal=True)
    display = RunDisplay(err, None)
    display.begin(inputs, resumed=False)
    names = ("nests", "s1", "s2", "s3", "s4", "s5", "s6")
    stages = {
        name: StageStatus(1, 0, None, 0, 0, False, read)
        for name, read in {"two": names[:2], "all": names}.items()
    }
    display.moved(replace(status(), stages=stages))
    display.close()
    seen = re.findall("waiting for (.*s1.*)", text_of(err))
    assert {each.strip() for each in seen} == {"nests, s1", "nests, s1 and 5 more"}


def test_a_file_gets_no_bars(inputs: list[Input]) -> None:
    err = console(terminal=False)
    display = RunDisplay(err, None)
    display.begin(inputs, resumed=False)
    display.uploaded("nests", 500, 1)
    display.moved(status())
    display.close()
    assert display.stages_every == TOLD
    assert text_of(err) == ""


def answer(about: str, total: int, columns: dict[str, str], rows: list[dict[str, Any]]) -> Answer:
    return Answer(query="q1", about=about, complete=True, total=total, columns=columns, rows=rows)


def test_an_answer_is_a_table_of_its_first_rows_in_which_data_is_only_data() -> None:
    out = console(terminal=False)
    rows = [{"name": "[bold]\x1b[31mwren", "also": ["a", "b"], "n": 7}]
    columns = {"name": "TEXT", "also": "LIST", "n": "INTEGER"}
    page = answer("eggs of [/x]", 12, columns, rows)
    RunDisplay(console(terminal=False), out).answer(page, Path("out/q1.csv"))
    seen = text_of(out)
    assert "q1: eggs of [/x]" in seen
    assert "[bold] [31mwren" in seen
    assert "a, b" in seen
    assert "\x1b" not in seen
    assert "and 11 more in out/q1.csv" in seen


def test_an_answer_without_rows_is_told_in_a_line() -> None:
    out = console(terminal=False)
    page = answer("eggs", 0, {"n": "INTEGER"}, [])
    RunDisplay(console(terminal=False), out).answer(page, Path("q1.csv"))
    assert text_of(out) == "q1: eggs: none\n"


def test_a_status_shows_sources_stages_failure_and_what_is_missing_where() -> None:
    out = console(terminal=False)
    out.print(Group(*picture(status("failed", "the moon is full"))))
    seen = text_of(out)
    for words in ("birds-1: birds, failed", "the moon is full", "1,200", "q1-sum", "7.0"):
        assert words in seen
    assert "nothing has moved for 130 s: q1-sum.1 has 1 of 2 batches of gateway/eggs" in seen


def test_a_status_as_json_gives_nothing_away() -> None:
    found = document(status())
    assert found["sources"]["eggs"]["missing"] == (0,)
    assert "the ticket" not in str(found)
    assert "the permit" not in str(found)
