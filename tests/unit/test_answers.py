"""Answers are written the same way every time, to the last byte, and never half."""

import csv
import io
import json
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan.answers import Format, Row, json_rows, native_rows, write_answer
from booksan.stages.graph import Query
from booksan.stages.kinds import ColumnType
from tests.support.data import csv_bytes

QUERY = Query(
    "q3",
    "q3-join",
    {
        "title": ColumnType.TEXT,
        "authors": ColumnType.LIST,
        "reviews": ColumnType.INTEGER,
        "mean": ColumnType.REAL,
    },
    ("title",),
    "books",
)
ROWS: list[Row] = [
    ('A "quoted", title', '["Alex Homer", "Kay Römer"]', 500, 4.79126213592233),
    ("Line\nbreak", '["Martin Luther King, Jr."]', 0, 0.0),
    ("源氏物語", "[]", 2**53 + 1, -0.1),
]
CSV = (
    "title,authors,reviews,mean\n"
    '"A ""quoted"", title","[""Alex Homer"", ""Kay Römer""]",500,4.79126213592233\n'
    '"Line\nbreak","[""Martin Luther King, Jr.""]",0,0.0\n'
    "源氏物語,[],9007199254740993,-0.1\n"
)
#: A lone carriage return is the one character that csv's writer and reader see differently.
cells = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=8)


def write(directory: Path, form: Format, rows: list[Row] = ROWS) -> bytes:
    path = write_answer(directory, QUERY, rows, form)
    assert path == directory / f"q3.{form.value}"
    assert list(directory.iterdir()) == [path]
    return path.read_bytes()


def test_csv_is_quoted_only_where_it_must_be(tmp_path: Path) -> None:
    assert write(tmp_path, Format.CSV).decode() == CSV


@settings(deadline=None, max_examples=100)
@given(rows=st.lists(st.lists(cells, min_size=2, max_size=2), max_size=5))
def test_csv_reads_back_as_it_was_written(rows: list[list[str]]) -> None:
    text = csv_bytes(("a", "b"), rows).decode()
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == [["a", "b"], *rows]


@settings(deadline=None, max_examples=100)
@given(value=st.floats(allow_nan=False))
def test_floats_are_written_as_their_repr(value: float) -> None:
    assert csv_bytes(("mean", "n"), [(value, 1)]).decode() == f"mean,n\n{value!r},1\n"


def test_pitfall_a_mean_of_exactly_zero_is_written() -> None:
    assert csv_bytes(("title", "mean", "n"), [("t", 0.0, 0)]) == b"title,mean,n\nt,0.0,0\n"


def test_a_missing_value_is_empty() -> None:
    assert csv_bytes(("a", "b", "c"), [("x", None, "")]) == b"a,b,c\nx,,\n"


def test_json_has_native_lists_and_numbers_and_is_not_escaped(tmp_path: Path) -> None:
    data = write(tmp_path, Format.JSON)
    assert json.loads(data) == [
        {
            "title": 'A "quoted", title',
            "authors": ["Alex Homer", "Kay Römer"],
            "reviews": 500,
            "mean": 4.79126213592233,
        },
        {
            "title": "Line\nbreak",
            "authors": ["Martin Luther King, Jr."],
            "reviews": 0,
            "mean": 0.0,
        },
        {"title": "源氏物語", "authors": [], "reviews": 2**53 + 1, "mean": -0.1},
    ]
    assert "源氏物語".encode() in data
    assert data.endswith(b"\n]\n")
    assert len(data.splitlines()) == 5


def test_parquet_has_native_lists_and_numbers(tmp_path: Path) -> None:
    write(tmp_path, Format.PARQUET)
    frame = pl.read_parquet(tmp_path / "q3.parquet")
    assert frame.schema == {
        "title": pl.String,
        "authors": pl.List(pl.String),
        "reviews": pl.Int64,
        "mean": pl.Float64,
    }
    assert frame.to_dicts() == native_rows(QUERY, ROWS)


@pytest.mark.parametrize("form", Format)
def test_the_same_rows_have_the_same_bytes(tmp_path: Path, form: Format) -> None:
    assert write(tmp_path, form) == write(tmp_path, form)


def test_an_answer_without_rows_keeps_its_form(tmp_path: Path) -> None:
    for form in Format:
        (tmp_path / form.value).mkdir()
    assert write(tmp_path / "csv", Format.CSV, []) == b"title,authors,reviews,mean\n"
    assert json.loads(write(tmp_path / "json", Format.JSON, [])) == []
    write(tmp_path / "parquet", Format.PARQUET, [])
    frame = pl.read_parquet(tmp_path / "parquet" / "q3.parquet")
    assert frame.height == 0
    assert frame.schema["authors"] == pl.List(pl.String)


@pytest.mark.parametrize("form", Format)
def test_a_new_answer_replaces_the_old_one(tmp_path: Path, form: Format) -> None:
    write(tmp_path, form, ROWS * 10)
    (tmp_path / f"q3.{form.value}").write_bytes(b"an old answer" * 1000)
    shorter = write(tmp_path, form, ROWS[:1])
    assert b"old answer" not in shorter


@pytest.mark.parametrize("form", [Format.JSON, Format.PARQUET])
def test_rows_that_do_not_fit_leave_the_old_answer(tmp_path: Path, form: Format) -> None:
    before = write(tmp_path, form)
    with pytest.raises(ValueError, match="shorter"):
        write(tmp_path, form, [("only a title",)])
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_whole_numbers_stay_whole(tmp_path: Path) -> None:
    rows: list[Row] = [("t", "[]", sys.maxsize, 1e16)]
    assert write(tmp_path, Format.CSV, rows).splitlines()[1] == b"t,[],9223372036854775807,1e+16"
    assert json.loads(write_answer(tmp_path, QUERY, rows, Format.JSON).read_bytes())[0] == {
        "title": "t",
        "authors": [],
        "reviews": sys.maxsize,
        "mean": 1e16,
    }


def no_constant(name: str) -> None:
    """As parsers of other languages do."""
    raise AssertionError(f"{name} is not JSON")


def test_pitfall_numbers_beyond_all_floats_are_texts_in_json_and_not_null(tmp_path: Path) -> None:
    query = Query(
        "q4",
        "q4-pick",
        {"mean": ColumnType.REAL, "max": ColumnType.DECIMAL},
        ("mean",),
        "prices",
    )
    rows: list[Row] = [
        (float("inf"), "1e400"),
        (float("-inf"), f"-{'9' * 390}"),
        (1.7976931348623157e308, "1e-400"),
        (None, None),
    ]
    expected = [
        {"mean": "inf", "max": "1e400"},
        {"mean": "-inf", "max": f"-{'9' * 390}"},
        {"mean": 1.7976931348623157e308, "max": 0.0},
        {"mean": None, "max": None},
    ]
    data = write_answer(tmp_path, query, rows, Format.JSON).read_bytes()
    assert json.loads(data, parse_constant=no_constant) == expected
    assert json_rows(query, rows) == expected
    write_answer(tmp_path, query, rows, Format.PARQUET)
    assert pl.read_parquet(tmp_path / "q4.parquet").to_dicts() == native_rows(query, rows)
    assert csv_bytes(tuple(query.columns), rows[:1]) == b"mean,max\ninf,1e400\n"
