"""CSV records, read the slow and plain way: framed on bytes, judged afterwards."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

#: Bytes of one record, its final line end not counted.
RECORD_LIMIT = 4 * 1024 * 1024
#: Characters of one number, and the largest exponent either way.
NUMBER_LIMIT = 400

BOM = b"\xef\xbb\xbf"
LONE_CR = re.compile(r"\r(?!\n)")
#: Stands for a lone carriage return, which csv.reader would take for a line end.
#: Bytes decoded as latin-1 never hold it.
PLACEHOLDER = "\u0100"
NUMBER = re.compile(r" *([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?) *")


class UnreadableError(ValueError):
    """The record cannot be read."""


def rows(
    path: Path, needed: Sequence[str], numbers: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str] | None]]:
    """Every row with its number, the first is 1; None stands for a rejected one."""
    records = framed(lines(path))
    header = _header(records, path, needed)
    for number, fields in enumerate(records, start=1):
        try:
            yield number, _row(header, fields, numbers)
        except UnreadableError:
            yield number, None


def lines(path: Path) -> Iterator[bytes]:
    """The lines with their ends; only a line feed ends a line. A BOM is left out."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for index, line in enumerate(file):
            yield line.removeprefix(BOM) if index == 0 else line


def framed(source: Iterator[bytes]) -> Iterator[list[bytes] | None]:
    """The records as fields; None for one that is no CSV or too long. Blank lines are skipped."""
    csv.field_size_limit(2**31 - 1)
    while True:
        # A reader of its own for each record: no state is left over from an error.
        reader = csv.reader(_fed(source), strict=True)
        try:
            fields = next(reader)
        except StopIteration:
            return
        except (csv.Error, UnreadableError):
            yield None
            continue
        if fields:
            yield [field.replace(PLACEHOLDER, "\r").encode("latin-1") for field in fields]


def number(text: str) -> Fraction:
    """The exact value of a number."""
    match = NUMBER.fullmatch(text)
    if match is None or len(text) > NUMBER_LIMIT:
        raise UnreadableError("not a number")
    if abs(int(match[2] or "0")) > NUMBER_LIMIT:
        raise UnreadableError("exponent out of range")
    return Fraction(match[1])


def _fed(source: Iterator[bytes]) -> Iterator[str]:
    size = 0
    for line in source:
        size += len(line)
        if size - _length_of_line_end(line) > RECORD_LIMIT:
            raise UnreadableError("record too long")
        yield LONE_CR.sub(PLACEHOLDER, line.decode("latin-1"))


def _length_of_line_end(line: bytes) -> int:
    if line.endswith(b"\r\n"):
        return 2
    return 1 if line.endswith(b"\n") else 0


def _header(records: Iterator[list[bytes] | None], path: Path, needed: Sequence[str]) -> list[str]:
    header = [_text(field) for field in next(records, None) or []]
    missing = [name for name in needed if name not in header]
    if missing:
        raise ValueError(f"{path.name} has no column {', '.join(missing)}")
    return header


def _row(header: list[str], fields: list[bytes] | None, numbers: Sequence[str]) -> dict[str, str]:
    if fields is None or len(fields) != len(header):
        raise UnreadableError("no record of this file")
    row = dict(zip(header, map(_text, fields), strict=True))
    for name in numbers:
        if row[name] != "":
            number(row[name])
    return row


def _text(field: bytes) -> str:
    if b"\0" in field:
        raise UnreadableError("NUL")
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError("not UTF-8") from error
