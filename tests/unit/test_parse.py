"""Parsed rows are the grammar's records, whatever the path, the batch size or the oddity."""

import csv
import io
import re
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booksan.errors import MessageError
from booksan.gateway import ingest as parse_module
from booksan.gateway.ingest import Parsed, parse
from booksan.stages.kinds import FieldKind
from booksan_common.cutter import Cutter
from booksan_common.grammar import MAX_RECORD
from tests.support.real_rows import NO_REAL_ROWS, REAL_ROWS
from tests.unit.test_grammar import limits, messy, reference, thorough

REVIEWS = REAL_ROWS / "books/Books_rating.csv"
NUMBER = re.compile(r" *[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)? *")

texts = st.text(st.sampled_from("\",\r\n a7é#\\;'\ufeff."), max_size=5)
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(texts, min_size=width, max_size=width), min_size=1, max_size=8)
)


def names(width: int) -> list[str]:
    return [f"c{place}" for place in range(width)]


def reason_for(data: bytes, width: int) -> str | None:
    """Why the fields of a framed record are no row; numbers are not looked at."""
    fields = reference(data)[0].fields
    assert fields is not None
    if b"\0" in data:
        return "contains a NUL byte"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    if len(fields) != width:
        return f"{len(fields)} field{'s' * (len(fields) != 1)} instead of {width}"
    return None


def expected(data: bytes, width: int, limit: int) -> tuple[list[tuple[object, ...]], list[object]]:
    """The rows and the rejected records, from the reference; c0 must be a number."""
    rows: list[tuple[object, ...]] = []
    rejected: list[object] = []
    for index, (fields, error) in enumerate(reference(data, limit)):
        whole = b",".join(b'"%b"' % field.replace(b'"', b'""') for field in fields or ())
        reason = error or reason_for(whole, width)
        values = [] if reason else [field.decode() for field in fields or ()]
        if values and values[0] and not NUMBER.fullmatch(values[0]):
            reason = f"c0 is not a number: {values[0]!r}"
        if reason:
            rejected.append((index, reason))
        else:
            rows.append((*values, index))
    return rows, rejected


def numbers(*columns: str) -> dict[str, FieldKind]:
    return dict.fromkeys(columns, FieldKind.NUMBER)


def parsed(data: bytes, width: int, limit: int = MAX_RECORD) -> Parsed:
    return parse(data, names(width), names(width), numbers("c0"), limit=limit)


def as_csv(rows: list[list[str]], line_end: str = "\n", quote_all: bool = False) -> bytes:
    def field(value: str) -> str:
        quote = quote_all or any(mark in value for mark in '",\r\n')
        return '"' + value.replace('"', '""') + '"' if quote else value

    return "".join(",".join(map(field, row)) + line_end for row in rows).encode()


def only(line: bytes, width: int = 2) -> str | None:
    """The reason for which the only record of a batch is rejected."""
    result = parsed(line, width)
    assert result.records == 1
    assert result.frame.height == 1 - len(result.rejected)
    return result.rejected[0][1] if result.rejected else None


@thorough
@given(data=messy, width=st.integers(1, 3), limit=limits)
def test_any_bytes_give_the_rows_of_the_reference(data: bytes, width: int, limit: int) -> None:
    result = parsed(data, width, limit)
    rows, rejected = expected(data, width, limit)
    assert result.frame.rows() == rows
    assert result.rejected == rejected
    assert result.records == len(rows) + len(rejected)


@thorough
@given(data=messy, width=st.integers(1, 3), limit=limits, size=st.integers(1, 30))
def test_rows_do_not_depend_on_the_batch_size(
    data: bytes, width: int, limit: int, size: int
) -> None:
    rows: list[tuple[object, ...]] = []
    rejected: list[object] = []
    count = 0
    for batch in Cutter(io.BytesIO(data), 0, batch_bytes=size, limit=limit):
        result = parsed(batch.data, width, limit)
        rows += [(*values, count + row) for *values, row in result.frame.rows()]
        rejected += [(count + row, reason) for row, reason in result.rejected]
        count += result.records
    assert (rows, rejected) == expected(data, width, limit)


@thorough
@given(
    rows=tables,
    line_end=st.sampled_from(["\n", "\r\n"]),
    quote_all=st.booleans(),
    piece=st.sampled_from([1, 20, 8192]),
)
def test_the_fast_and_the_slow_path_give_the_same_rows(
    rows: list[list[str]], line_end: str, quote_all: bool, piece: int
) -> None:
    data = as_csv(rows, line_end, quote_all)
    columns = names(len(rows[0]))
    with patch.object(parse_module, "_Sorter", side_effect=AssertionError):
        fast = parse(data, columns, columns)
    with (
        patch.object(parse_module, "_is_plain", return_value=False),
        patch.object(parse_module, "_PIECE_BYTES", piece),
    ):
        slow = parse(data, columns, columns)
    assert fast.frame.rows() == [(*row, index) for index, row in enumerate(rows)]
    assert fast.frame.equals(slow.frame)
    assert fast.frame.schema == slow.frame.schema
    assert fast.rejected == slow.rejected == []


def test_needed_columns_come_in_the_order_asked_for() -> None:
    result = parse(b'1,"x, y",3\n4,,6\n', ["a", "b", "c"], ["c", "b"])
    assert result.frame.rows(named=True) == [
        {"c": "3", "b": "x, y", "row": 0},
        {"c": "6", "b": "", "row": 1},
    ]
    assert dict(result.frame.schema) == {"c": pl.String, "b": pl.String, "row": pl.UInt32}


@pytest.mark.parametrize("data", [b"", b"\n\r\n", b"x\n"])
def test_a_batch_without_rows_has_the_columns_all_the_same(data: bytes) -> None:
    frame = parse(data, ["a", "b"], ["b"]).frame
    assert frame.height == 0
    assert dict(frame.schema) == {"b": pl.String, "row": pl.UInt32}


def test_rejected_records_keep_their_numbers_and_blank_lines_have_none() -> None:
    data = b'1,a\n\n"x"y\n2,b\n3\nz,c\n\r\n4,d\n'
    result = parsed(data, 2)
    assert result.frame.rows() == [("1", "a", 0), ("2", "b", 2), ("4", "d", 5)]
    assert result.rejected == [
        (1, "text after a closing quote"),
        (3, "1 field instead of 2"),
        (4, "c0 is not a number: 'z'"),
    ]
    assert result.records == 6


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b'x\0\xff,"a"b' + b"x" * MAX_RECORD, "record over 4 MiB"),
        (b'x\0\xff,"a"b', "text after a closing quote"),
        (b'x\0\xff,"a', "unterminated quote"),
        (b"x\0\xff", "contains a NUL byte"),
        (b"x\xff", "not UTF-8"),
        (b"\xed\xa0\x80,a", "not UTF-8"),
        (b"x", "1 field instead of 2"),
        (b"x,a,b", "3 fields instead of 2"),
        (b"x,a", "c0 is not a number: 'x'"),
        (b"1,a", None),
    ],
)
def test_the_first_reason_in_the_fixed_order_counts(record: bytes, reason: str | None) -> None:
    assert only(record) == reason
    assert only(record + b"\n") == reason


def test_numbers_are_judged_in_the_order_of_the_needed_columns() -> None:
    header = ["a", "b", "c"]
    result = parse(b"x,y,z\n1,y,z\n1,2,z\n", header, ["b", "a", "c"], numbers("a", "b"))
    assert result.rejected == [(0, "b is not a number: 'y'"), (1, "b is not a number: 'y'")]
    assert result.frame.rows() == [("2", "1", "z", 2)]


@pytest.mark.parametrize(
    "number",
    ["", "0", "+1", "-1.", ".5", "1e5", "1E-05", " 7.25 ", "1e400", "1e-0000400", "9" * 400],
)
def test_numbers_and_lacking_values_are_kept_as_they_are(number: str) -> None:
    assert parsed(f"{number},x\n".encode(), 2).frame["c0"].to_list() == [number]


@pytest.mark.parametrize(
    "text",
    [
        " ",
        ".",
        "1,5",
        "0x1",
        "1e",
        "e5",
        "nan",
        "inf",
        "1_0",
        "٣",
        "1 2",
        "5\n",
        "\t5",
        "--1",
        "5\r",
    ],
)
def test_what_is_no_number_is_rejected(text: str) -> None:
    assert only(as_csv([[text, "x"]])) == f"c0 is not a number: {text!r}"


@pytest.mark.parametrize("number", ["1e401", "-1E-401", "1e0000999", "9" * 401, "1e" + "9" * 300])
def test_numbers_beyond_exact_arithmetic_are_out_of_range(number: str) -> None:
    shown = number if len(number) <= 40 else number[:37] + "..."
    assert only(f"{number},x\n".encode()) == f"c0 is out of range: '{shown}'"


def test_a_long_or_strange_value_is_shown_short_and_printable() -> None:
    reason = only(as_csv([["\x1b[31m\n" + "y" * 9999, "x"]])) or ""
    assert reason.isprintable()
    assert len(reason) < 80


def test_text_that_looks_like_rows_stays_text_in_large_batches() -> None:
    text = '1,"x"\n2,"y"\n\n,' * 3000
    rows = [[str(number), text] for number in range(70)]
    data = as_csv(rows)
    assert 2**21 < len(data) < MAX_RECORD
    assert parsed(data, 2).frame.rows() == [(*row, index) for index, row in enumerate(rows)]


def test_wide_rows_and_long_fields_are_read() -> None:
    wide = [[f"{row}.{place}" for place in range(1000)] for row in range(3)]
    columns = names(1000)
    assert parse(as_csv(wide), columns, columns[::-1]).frame.row(2)[:1000] == tuple(wide[2][::-1])
    long = ["1", "é" * 2_000_000]
    assert parsed(as_csv([long]), 2).frame.rows() == [(*long, 0)]


def test_a_batch_larger_than_the_longest_record_is_read_alike() -> None:
    rows = [[str(number), "text " * 20_000] for number in range(60)]
    assert parsed(as_csv(rows), 2).frame["c1"].to_list() == [text for _, text in rows]


@pytest.mark.skipif(not REVIEWS.exists(), reason=NO_REAL_ROWS)
def test_the_public_reviews_are_read_as_csv_reader_reads_them() -> None:
    with REVIEWS.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file, strict=True))
    data = REVIEWS.read_bytes().split(b"\n", 1)[1]
    result = parse(data, header, header, numbers("review/score"))
    assert result.rejected == []
    assert result.frame.drop("row").rows() == [tuple(row) for row in rows]


@pytest.mark.parametrize(
    ("record", "columns"), [(b"x\n", ()), (b"x,y\n", ("c0",))], ids=["width", "number"]
)
def test_a_batch_of_very_many_bad_records_is_refused_before_it_costs_much(
    record: bytes, columns: tuple[str, ...]
) -> None:
    """Eight megabytes of them would take a gigabyte and most of a minute."""
    with patch.object(parse_module, "MAX_ODD", 1000):
        assert len(parse(record * 1000, names(2), names(2), numbers(*columns)).rejected) == 1000
        with pytest.raises(MessageError, match="send smaller batches"):
            parse(record * 1001, names(2), names(2), numbers(*columns))


KINDS = {
    FieldKind.WHOLE: (
        ["0", "10", " 10 ", "+10", "-3", "10.0", "1e1", "100e-1", "9223372036854775807", "1.50e1"],
        {"1.5": "whole number", "1e-1": "whole number", "ten": "whole number", "1e19": "range"},
    ),
    FieldKind.BOOLEAN: (
        ["True", "False", "true", "FALSE", "tRuE"],
        {"1": "True or False", " True": "True or False", "yes": "True or False", "falſe": "True"},
    ),
    FieldKind.ISO_DURATION: (
        ["PT7H28M", "P1DT2H", "PT5M", "P2W", "PT0.5S", "P1DT0S", "PT36H", "P3W2DT4H5M6.789S"],
        dict.fromkeys(
            [
                "P",
                "PT",
                "P1DT",
                "P1Y",
                "P1M",
                "pt1h",
                "-PT1H",
                "PT1.5H",
                "PT1M1H",
                "1H",
                "PT1H ",
                "PT" + "1" * 400 + "H",
                "PT١H",
            ],
            "",
        ),
    ),
    FieldKind.CLOCK_DURATION: (
        ["0:00:00", "1:02:03", "123:59:59", "1 day, 2:03:04", "12 days, 0:00:01.25", "00:10:00"],
        dict.fromkeys(
            ["1:2:3", "1:60:00", "1:00:60", "10:00", "1 day 2:03:04", "-1:00:00", "1h"], ""
        ),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_of_a_kind_is_of_it_or_empty_or_its_row_is_rejected(kind: FieldKind) -> None:
    good, bad = KINDS[kind]
    data = as_csv([[text, "x"] for text in ["", *good, *bad]])
    result = parse(data, names(2), names(2), {"c0": kind})
    assert result.frame["c0"].to_list() == ["", *good]
    assert [row for row, _ in result.rejected] == list(
        range(1 + len(good), 1 + len(good) + len(bad))
    )
    for (_, reason), expected in zip(result.rejected, bad.values(), strict=True):
        assert reason.startswith("c0 is ")
        assert expected in reason


def test_a_text_that_stands_for_nothing_is_read_as_nothing() -> None:
    data = b"\\N,5,\\N\nx\\N,\\N,y\n"
    result = parse(data, names(3), names(3), numbers("c1"), lacking="\\N")
    assert result.frame.drop("row").rows() == [("", "5", ""), ("x\\N", "", "y")]
    assert parse(data, names(3), names(3), numbers("c1")).rejected == [
        (1, "c1 is not a number: '\\\\N'")
    ]
