"""Records are framed as csv.reader(strict=True) frames them, line by line."""

import csv
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan_common.grammar import (
    AFTER_QUOTE,
    MAX_RECORD,
    OVER_LONG,
    UNTERMINATED,
    Grammar,
    grammar,
    records,
)

csv.field_size_limit(2**31)

#: Stands for a CR that is data, which csv.reader would take for a line end.
CR = "\u0100"

ALPHABET = [b'"', b'"', b",", b"\r", b"\n", b"\r\n", b"a", b"7", b"\0", b"\xff", "é".encode()]

#: Many quotes where they matter, so that what is inside and outside of them gets mixed up.
DENSE = [b'"', b",", b"\n", b"a", b',"', b'",', b'"\n', b'a"', b'"\r\n', b"\r"]
messy = st.sampled_from([DENSE, ALPHABET]).flatmap(
    lambda alphabet: st.lists(st.sampled_from(alphabet), max_size=30).map(b"".join)
)
thorough = settings(max_examples=200, deadline=None)
limits = st.sampled_from([1, 2, 3, 4, 5, 8, 13, MAX_RECORD])


class Expected(NamedTuple):
    fields: list[bytes] | None
    error: str | None


class TooLongError(Exception):
    pass


def split_lines(data: bytes) -> list[tuple[bytes, bytes]]:
    """Every line as (text, line end)."""
    *lines, last = data.split(b"\n")
    pairs = [(line[:-1], b"\r\n") if line.endswith(b"\r") else (line, b"\n") for line in lines]
    return [*pairs, (last, b"")] if last else pairs


def reference(data: bytes, limit: int = MAX_RECORD, delimiter: bytes = b",") -> list[Expected]:
    """What the records of a whole file are, in the most literal way."""
    lines = split_lines(data)
    expected = []
    position = 0
    while position < len(lines):
        if lines[position][0] == b"" and lines[position][1]:
            position += 1
            continue
        record, used = reference_record(lines[position:], limit, delimiter)
        expected.append(record)
        position += used
    return expected


def reference_record(
    lines: list[tuple[bytes, bytes]], limit: int, delimiter: bytes
) -> tuple[Expected, int]:
    used = 0

    def feed() -> Iterator[str]:
        nonlocal used
        size = 0
        for text, line_end in lines:
            used += 1
            if size + len(text) > limit:
                raise TooLongError
            size += len(text) + len(line_end)
            yield text.decode("latin-1").replace("\r", CR) + line_end.decode()

    try:
        fields = next(csv.reader(feed(), strict=True, delimiter=delimiter.decode()))
    except TooLongError:
        return Expected(None, OVER_LONG), used
    except csv.Error as error:
        unterminated = "unexpected end of data" in str(error)
        return Expected(None, UNTERMINATED if unterminated else AFTER_QUOTE), used
    return Expected([field.replace(CR, "\r").encode("latin-1") for field in fields], None), used


def framed(data: bytes, limit: int = MAX_RECORD, delimiter: bytes = b",") -> list[Expected]:
    rules = grammar(delimiter)
    return [
        Expected(None if error else rules.fields(data[start:end]), error)
        for start, end, error in records(data, delimiter, limit=limit)
    ]


@thorough
@given(data=messy, limit=limits)
def test_any_bytes_give_the_records_of_csv_reader(data: bytes, limit: int) -> None:
    assert framed(data, limit) == reference(data, limit)


@thorough
@given(data=messy.map(lambda data: data.replace(b",", b";")), limit=limits)
def test_another_delimiter_follows_the_same_rules(data: bytes, limit: int) -> None:
    assert framed(data, limit, b";") == reference(data, limit, b";")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a,b\n", [[b"a", b"b"]]),
        (b"a,b\r\n", [[b"a", b"b"]]),
        (b"a,b\r\r\n", [[b"a", b"b\r"]]),
        (b"a\rb,c\n", [[b"a\rb", b"c"]]),
        (b"a,b\r", [[b"a", b"b\r"]]),
        (b'"a\r\nb",c\r\n', [[b"a\r\nb", b"c"]]),
        (b"\n\r\na\n\n\r\nb\n\n", [[b"a"], [b"b"]]),
        (b'""\n', [[b""]]),
        (b'a"b,"c""d"\n', [[b'a"b', b'c"d']]),
        (b"a,\n", [[b"a", b""]]),
        (b"a\0b\n", [[b"a\0b"]]),
    ],
)
def test_readable_records(data: bytes, expected: list[list[bytes]]) -> None:
    assert framed(data) == [Expected(fields, None) for fields in expected]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b'"a"x,"b\nz\n', AFTER_QUOTE),
        (b'"a"\r,b\nz\n', AFTER_QUOTE),
        (b'"a"\r\r\nz\n', AFTER_QUOTE),
        (b'"a\nb" \nz\n', AFTER_QUOTE),
        (b"12345678\nz\n", OVER_LONG),
        (b'"123456\n\nz"\nz\n', OVER_LONG),
        (b'""x45678\nz\n', OVER_LONG),
    ],
)
def test_reading_goes_on_after_the_line_of_an_error(data: bytes, error: str) -> None:
    first, *_, last = framed(data, limit=7)
    assert first.error == error
    assert last == Expected([b"z"], None)


def test_an_unterminated_quote_takes_the_rest_of_the_file() -> None:
    assert framed(b'a\n"b\nc\nd\n') == [Expected([b"a"], None), Expected(None, UNTERMINATED)]


def test_a_lone_cr_at_the_end_of_the_file_is_no_line_end() -> None:
    assert framed(b'"a"\r') == [Expected(None, AFTER_QUOTE)]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b""])
def test_the_limit_is_four_mebibytes_without_the_line_end(line_end: bytes) -> None:
    assert [r.error for r in records(b"x" * MAX_RECORD + line_end)] == [None]
    assert [r.error for r in records(b"x" * (MAX_RECORD + 1) + line_end)] == [OVER_LONG]


def test_records_with_thousands_of_fields_are_read() -> None:
    data = b'a,"b""c",' * 5000 + b"d\n"
    assert framed(data) == [Expected([b"a", b'b"c'] * 5000 + [b"d"], None)]


@thorough
@given(data=messy)
def test_a_plain_run_ends_at_a_border_that_csv_reader_sees(data: bytes) -> None:
    end = Grammar(b",").plain_run(data)
    assert reference(data[:end]) + reference(data[end:]) == reference(data)


@thorough
@given(data=messy, width=st.integers(1, 3))
def test_table_rows_are_readable_records_of_that_width(data: bytes, width: int) -> None:
    rows = Grammar(b",").table_rows(data, width)
    if rows and width > 1:
        assert [len(fields or ()) for fields, _ in reference(data)] == [width] * rows


def test_a_table_may_hold_quotes_and_either_line_end() -> None:
    data = b'a,"b,""\r\n""x"\r\n"",c\n,\n'
    assert grammar(b",").table_rows(data, 2) == 3
    assert grammar(b",").table_rows(data, 3) == 0


@pytest.mark.parametrize("data", [b'a",",\n"x\n', b'"a"x,"\n",\n', b'"a"\ra,"\n",\n'])
def test_quotes_that_do_not_open_or_close_are_not_plain(data: bytes) -> None:
    assert grammar(b",").plain_run(data) == 0


@pytest.mark.parametrize(
    "data", [b"a\rb,c\n", b"a,b\r\r\n", b"a,b\n\n", b",\na", b"a,b", b'a,b\n"c,d\n']
)
def test_what_readers_may_see_differently_is_no_table(data: bytes) -> None:
    assert grammar(b",").table_rows(data, 2) == 0


@thorough
@given(values=st.lists(messy, min_size=1))
def test_joined_values_are_read_back(values: list[bytes]) -> None:
    assert framed(grammar(b",").join(values)) == [Expected(values, None)]


@pytest.mark.parametrize("delimiter", [b"", b'"', b"\n", b"\r", b"\xff", b",,"])
def test_a_delimiter_is_one_ascii_byte(delimiter: bytes) -> None:
    with pytest.raises(ValueError, match="delimiter"):
        Grammar(delimiter)
