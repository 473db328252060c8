"""CSV records, read the slow and plain way: framed on bytes, judged afterwards."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from tests.oracle.kinds import UnreadableError

Row = Mapping[str, str]
Record = list[bytes] | None
#: Gives the value of a field that is not lacking, or raises UnreadableError.
Kind = Callable[[str], object]

#: Bytes of one record, its final line end not counted.
RECORD_LIMIT = 4 * 1024 * 1024
#: Readable records that decide whether a name of the header stands for two fields.
DECIDING_RECORDS = 100

BOM = b"\xef\xbb\xbf"
LONE_CR = re.compile(r"\r(?!\n)")
#: Stands for a lone carriage return, which csv.reader would take for a line end.
#: Bytes decoded as latin-1 never hold it.
PLACEHOLDER = "\u0100"

NO_KINDS: Mapping[str, Kind] = MappingProxyType({})


@dataclass(frozen=True)
class Form:
    """What is special about the files of a source."""

    delimiter: str = ","
    #: A text that stands for a lacking value, as the empty one does.
    lacking: str = ""
    #: A name that stands for two fields where the header is one name short, and the two names.
    double_name: tuple[str, list[str]] | None = None


PLAIN = Form()


def rows(
    path: Path, needed: Sequence[str], kinds: Mapping[str, Kind] = NO_KINDS, form: Form = PLAIN
) -> Iterator[tuple[int, Row | None]]:
    """Every row with its number, the first is 1; None stands for a rejected one."""
    records = framed(lines(path), form.delimiter)
    header = [_text(field) for field in next(records, None) or []]
    if form.double_name is not None and form.double_name[0] in header:
        deciding, records = _peeked(records)
        if _is_one_name_short(header, deciding):
            place = header.index(form.double_name[0])
            header[place : place + 1] = form.double_name[1]
    _check(header, path, needed)
    for number, fields in enumerate(records, start=1):
        try:
            yield number, _row(header, fields, kinds, form)
        except UnreadableError:
            yield number, None


def lines(path: Path) -> Iterator[bytes]:
    """The lines with their ends; only a line feed ends a line. A BOM is left out."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for index, line in enumerate(file):
            yield line.removeprefix(BOM) if index == 0 else line


def framed(source: Iterator[bytes], delimiter: str = ",") -> Iterator[Record]:
    """The records as fields; None for one that is no CSV or too long. Blank lines are skipped."""
    csv.field_size_limit(2**31 - 1)
    while True:
        # A reader of its own for each record: no state is left over from an error.
        reader = csv.reader(_fed(source), delimiter=delimiter, strict=True)
        try:
            fields = next(reader)
        except StopIteration:
            return
        except (csv.Error, UnreadableError):
            yield None
            continue
        if fields:
            yield [field.replace(PLACEHOLDER, "\r").encode("latin-1") for field in fields]


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


def _peeked(records: Iterator[Record]) -> tuple[list[list[bytes]], Iterator[Record]]:
    """The first readable records, and all records as if none had been looked at."""
    seen: list[Record] = []
    readable: list[list[bytes]] = []
    for fields in records:
        seen.append(fields)
        if fields is not None and _is_text(fields):
            readable.append(fields)
        if len(readable) == DECIDING_RECORDS:
            break
    return readable, chain(seen, records)


def _is_text(fields: list[bytes]) -> bool:
    try:
        for field in fields:
            _text(field)
    except UnreadableError:
        return False
    return True


def _is_one_name_short(header: list[str], records: list[list[bytes]]) -> bool:
    widths = [len(fields) for fields in records]
    return widths.count(len(header) + 1) > widths.count(len(header))


def _check(header: list[str], path: Path, needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in header]
    if missing:
        raise ValueError(f"{path.name} has no column {', '.join(missing)}")
    doubled = [name for name in needed if header.count(name) > 1]
    if doubled:
        raise ValueError(f"{path.name} has more than one column {', '.join(doubled)}")


def _row(header: list[str], fields: Record, kinds: Mapping[str, Kind], form: Form) -> Row:
    if fields is None or len(fields) != len(header):
        raise UnreadableError("no record of this file")
    texts = ["" if text == form.lacking else text for text in map(_text, fields)]
    row = dict(zip(header, texts, strict=True))
    for name, kind in kinds.items():
        if row[name] != "":
            kind(row[name])
    return row


def _text(field: bytes) -> str:
    if b"\0" in field:
        raise UnreadableError("NUL")
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError("not UTF-8") from error
