"""Reads generated files back, and says of each record whether and why it has to be rejected."""

import csv
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from booksan.generate import Generated, Written, generator

Row = dict[str, str]
Holds = Callable[[str], object]

NUMBER = re.compile(r" *[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)? *")
CLOCK = re.compile(r"([0-9]+ days?, )?[0-9]+:[0-5][0-9]:[0-5][0-9](\.[0-9]+)?")
ISO = re.compile(
    r"P(?=.)([0-9]+W)?([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?",
)


def is_whole(value: str) -> bool:
    return bool(NUMBER.fullmatch(value)) and float(value).is_integer() and abs(float(value)) < 2**63


def is_boolean(value: str) -> bool:
    return value.lower() in ("true", "false")


#: What a column may hold, and the reason if it does not.
NUMBERS = (NUMBER.fullmatch, generator.NOT_A_NUMBER)
WHOLE = (is_whole, generator.NOT_WHOLE)
BOOLEAN = (is_boolean, generator.NO_BOOLEAN)
CLOCKS = (CLOCK.fullmatch, generator.NO_DURATION)
DURATIONS = (ISO.fullmatch, generator.NO_DURATION)
Kinds = Mapping[str, tuple[Holds, str]]


def digest(made: Generated) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in made.paths)).hexdigest()


def read_rows(path: Path, delimiter: str = ",") -> tuple[list[str], list[list[str]]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, strict=True, delimiter=delimiter)
        return next(rows), list(rows)


def read_clean(path: Path, delimiter: str = ",") -> list[Row]:
    header, rows = read_rows(path, delimiter)
    return [dict(zip(header, row, strict=True)) for row in rows]


class Record(NamedTuple):
    fields: list[str]
    reason: str


@contextmanager
def wide_fields() -> Iterator[None]:
    before = csv.field_size_limit(1 << 30)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def read_dirty(
    path: Path, kinds: Kinds | None = None, delimiter: str = ",", header: list[str] | None = None
) -> list[Record]:
    """All records after the header, each with the reason to reject it, or none."""
    with path.open("rb") as file, wide_fields():
        return list(_judged_records(file, kinds or {}, delimiter, header))


def _judged_records(
    file: BinaryIO, kinds: Kinds, delimiter: str, header: list[str] | None
) -> Iterator[Record]:
    size = 0

    def lines() -> Iterator[str]:
        nonlocal size
        for line in file:
            size += len(line)
            yield line.decode("latin-1")

    rows = csv.reader(lines(), strict=True, delimiter=delimiter)
    names = [name.removeprefix("\xef\xbb\xbf") for name in next(rows)]
    while True:
        size = 0
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            at_end = "unexpected end" in str(error)
            yield Record([], generator.UNTERMINATED if at_end else generator.AFTER_QUOTE)
            continue
        if row:
            yield judged(row, size, header or names, kinds)


def judged(row: list[str], size: int, names: list[str], kinds: Kinds) -> Record:
    if size > 4 * 1024 * 1024:
        return Record([], generator.TOO_LONG)
    if len(row) != len(names):
        return Record([], generator.TOO_FEW if len(row) < len(names) else generator.TOO_MANY)
    try:
        row = [value.encode("latin-1").decode() for value in row]
    except UnicodeDecodeError:
        return Record([], generator.NOT_UTF8)
    if any("\0" in value for value in row):
        return Record([], generator.NUL)
    for name, (holds, reason) in kinds.items():
        value = row[names.index(name)]
        if value not in ("", "\\N") and not holds(value):
            return Record([], reason)
    return Record(row, "")


def rejected(records: list[Record]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for number, record in enumerate(records, 1):
        if record.reason:
            rows.setdefault(record.reason, []).append(number)
    return rows


def check_dirty(
    clean: Written,
    dirty: Written,
    kinds: Kinds | None = None,
    delimiter: str = ",",
    header: list[str] | None = None,
) -> None:
    """The dirty file holds the rows of the clean one, in order, and the bad ones it names."""
    records = read_dirty(dirty.path, kinds, delimiter, header)
    good = [[value.replace("\r", " ") for value in each.fields] for each in records if each.fields]
    assert good == read_rows(clean.path, delimiter)[1]
    assert dirty.rows == len(records)
    assert rejected(records) == dirty.bad
    assert clean.bad == {}
