"""What the fields of all data sets may hold, and the special forms of some files, by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.oracle.kinds import (
    UnreadableError,
    boolean,
    clock_duration,
    iso_duration,
    number,
    unless_lacking,
    whole,
)
from tests.oracle.reader import Form, rows

# Kinds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10", 10),
        ("10.0", 10),
        ("1e1", 10),
        ("  +10. ", 10),
        ("1000e-2", 10),
        ("-0", 0),
        ("007", 7),
        ("9223372036854775807", 9223372036854775807),
        ("-9223372036854775808", -9223372036854775808),
    ],
)
def test_whole_numbers_go_by_value(text: str, expected: int) -> None:
    assert whole(text) == expected


@pytest.mark.parametrize(
    "text",
    ["1.5", "1e-1", "9223372036854775808", "-9223372036854775809", "1e19", "1e401", "x", "1 0"],
)
def test_what_is_not_whole_or_out_of_range_is_no_whole_number(text: str) -> None:
    with pytest.raises(UnreadableError):
        whole(text)


@pytest.mark.parametrize("text", ["True", "true", "TRUE", "tRuE"])
def test_true_is_true_in_any_case(text: str) -> None:
    assert boolean(text) is True


@pytest.mark.parametrize("text", ["False", "false", "FALSE", "fAlSe"])
def test_false_is_false_in_any_case(text: str) -> None:
    assert boolean(text) is False


@pytest.mark.parametrize(
    "text", [" True", "True ", "1", "0", "yes", "T", "falſe", "Truе", "true\n"]
)
def test_everything_else_is_no_boolean(text: str) -> None:
    with pytest.raises(UnreadableError):
        boolean(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT7H28M", 26880),
        ("P1DT2H", 93600),
        ("P1D", 86400),
        ("P2W", 1209600),
        ("P1W1DT1H1M1S", 694861),
        ("PT90M", 5400),
        ("PT0S", 0),
        ("PT0.5S", Fraction(1, 2)),
        ("PT007H", 25200),
        ("PT1H1S", 3601),
        ("PT" + "0" * 397 + "H", 0),
    ],
)
def test_iso_durations_have_exact_seconds(text: str, seconds: Fraction) -> None:
    assert iso_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *["P", "PT", "P1DT", "1H", "T1H", "PT1", "P1H", "PT1D", "P1Y", "P1M", "-PT1H", "PT-1H"],
        *["+PT1H", "PT1M1H", "P1D1W", "PT1.5H", "PT.5S", "PT1.S", "PT1,5S", "pt1h", " PT1H"],
        *["PT1H ", "PT1H\n", "PT١H", "PT1H1H", "P1DT1H1D", "PT" + "0" * 398 + "H", "7:28:00"],
    ],
)
def test_what_is_no_iso_duration_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        iso_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:00:00", 0),
        ("2:03:04", 7384),
        ("02:03:04", 7384),
        ("1 day, 2:03:04", 93784),
        ("2 days, 0:00:01", 172801),
        ("1 days, 0:00:00", 86400),
        ("0 day, 0:00:00", 0),
        ("26:03:04", 93784),
        ("0:00:01.25", Fraction(5, 4)),
        ("0" * 394 + ":00:00", 0),
    ],
)
def test_clock_durations_have_exact_seconds(text: str, seconds: Fraction) -> None:
    assert clock_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *[
            "1:2:03",
            "1:02:3",
            "1:60:00",
            "1:00:60",
            "03:04",
            ":03:04",
            "1 day 2:03:04",
            "1day, 2:03:04",
        ],
        *["1 day,2:03:04", "-1 day, 2:03:04", "-2:03:04", "2:03:04.", " 2:03:04", "2:03:04 "],
        *["2:03:04\n", "1 Day, 2:03:04", "٢:03:04", "1 day, ", "0" * 395 + ":00:00", "PT2H"],
    ],
)
def test_what_is_no_clock_duration_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        clock_duration(text)


def test_a_lacking_value_is_none() -> None:
    assert unless_lacking(number, "") is None
    assert unless_lacking(number, "0") == 0


# Forms


def rows_of(tmp_path: Path, content: bytes, form: Form) -> list[tuple[int, dict[str, str] | None]]:
    path = tmp_path / "any.csv"
    path.write_bytes(content)
    read = rows(path, ["n"], {"n": number}, form)
    return [(row_number, None if row is None else dict(row)) for row_number, row in read]


def test_another_delimiter_leaves_commas_alone(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbfn;t\r\n1;a, b\r\n2;"c;d"\r\n3,x\r\n'
    assert rows_of(tmp_path, content, Form(delimiter=";")) == [
        (1, {"n": "1", "t": "a, b"}),
        (2, {"n": "2", "t": "c;d"}),
        (3, None),
    ]


def test_only_the_very_text_that_stands_for_lacking_is_lacking(tmp_path: Path) -> None:
    content = b'n,t\n\\N,\\N\n"\\N",\\n\n1, \\N\n\\n,x\n\\N ,x\n,x\n'
    assert rows_of(tmp_path, content, Form(lacking=r"\N")) == [
        (1, {"n": "", "t": ""}),
        (2, {"n": "", "t": r"\n"}),
        (3, {"n": "1", "t": r" \N"}),
        (4, None),
        (5, None),
        (6, {"n": "", "t": "x"}),
    ]


def test_a_text_for_lacking_is_no_number_in_other_files(tmp_path: Path) -> None:
    assert rows_of(tmp_path, b"n\n\\N\n", Form()) == [(1, None)]


TWO = Form(double_name=("ab", ["a", "b"]))


def test_a_name_is_split_when_the_records_have_one_field_more(tmp_path: Path) -> None:
    assert rows_of(tmp_path, b"x,ab,n\n1,2,3,4\n1,2,3\n1,2,3,5\n", TWO) == [
        (1, {"x": "1", "a": "2", "b": "3", "n": "4"}),
        (2, None),
        (3, {"x": "1", "a": "2", "b": "3", "n": "5"}),
    ]


def test_a_name_is_not_split_when_as_many_records_have_the_width_of_the_header(
    tmp_path: Path,
) -> None:
    assert rows_of(tmp_path, b"ab,n\n1,2,3\n1,2\n1\n1,2,3,4\n", TWO) == [
        (1, None),
        (2, {"ab": "1", "n": "2"}),
        (3, None),
        (4, None),
    ]


def test_a_name_is_not_split_without_records(tmp_path: Path) -> None:
    assert rows_of(tmp_path, b"ab,n\n", TWO) == []


def test_no_other_name_is_split(tmp_path: Path) -> None:
    assert rows_of(tmp_path, b"AB,n\n1,2,3\n", TWO) == [(1, None)]


@pytest.mark.parametrize("bad", [b'"x"y,1\n', b"\xff,1\n", b"\0,1\n"])
def test_unreadable_records_do_not_decide_about_the_header(tmp_path: Path, bad: bytes) -> None:
    split = rows_of(tmp_path, b"ab,n\n" + bad * 2 + b"1,2,3\n", TWO)
    assert split == [(1, None), (2, None), (3, {"a": "1", "b": "2", "n": "3"})]


def test_the_first_hundred_readable_records_decide_about_the_header(tmp_path: Path) -> None:
    wide, fitting, unreadable = b"1,2,3\n", b"1,2\n", b"\xff\n"
    early = unreadable + wide * 51 + fitting * 49 + fitting * 100
    assert [row is None for _, row in rows_of(tmp_path, b"ab,n\n" + early, TWO)] == [
        *[True],
        *[False] * 51,
        *[True] * 149,
    ]
    late = unreadable + wide * 50 + fitting * 50 + wide * 100
    assert [row is None for _, row in rows_of(tmp_path, b"ab,n\n" + late, TWO)] == [
        *[True] * 51,
        *[False] * 50,
        *[True] * 100,
    ]
