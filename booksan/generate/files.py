"""Rows become CSV records, records become a file that appears whole or not at all."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

Row = list[str]
Progress = Callable[[int], None]

#: Records in one write: about a megabyte of reviews.
CHUNK = 1000


@dataclass(frozen=True)
class Style:
    """How a file separates its fields and ends its lines, and whether a BOM opens it."""

    delimiter: str = ","
    end: str = "\n"
    bom: bool = False


PLAIN = Style()


@dataclass(frozen=True)
class Written:
    """One generated file: its rows (bad ones included) and the row numbers of the bad ones."""

    path: Path
    rows: int
    bytes: int
    bad: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def bad_rows(self) -> int:
        return sum(len(rows) for rows in self.bad.values())


def quoted(value: str, delimiter: str = ",") -> str:
    """The value as a CSV field: in quotes where it has to be."""
    # csv.writer would do, but which fields it puts in quotes differs between Python versions.
    if '"' in value:
        return '"' + value.replace('"', '""') + '"'
    if delimiter in value or "\n" in value or "\r" in value:
        return f'"{value}"'
    return value


def line(row: Sequence[str], delimiter: str = ",") -> str:
    """The row as a CSV record without its line end."""
    text = delimiter.join(row)
    # Most rows need no quotes at all, and to look at the whole costs less than at each field.
    plain = text.count(delimiter) == len(row) - 1 and not _needs_quotes(text)
    return text if plain else delimiter.join([quoted(value, delimiter) for value in row])


def _needs_quotes(text: str) -> bool:
    return '"' in text or "\n" in text or "\r" in text


def records(rows: Iterable[Row], style: Style = PLAIN) -> Iterator[bytes]:
    delimiter, end = style.delimiter, style.end
    return (f"{line(row, delimiter)}{end}".encode() for row in rows)


def write(
    path: Path,
    header: Sequence[str],
    body: Iterator[bytes],
    progress: Progress | None,
    style: Style = PLAIN,
) -> Written:
    """Write the header and the records under a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    first = f"{line(header, style.delimiter)}{style.end}"
    try:
        rows, size = _write(temporary, f"\ufeff{first}" if style.bom else first, body, progress)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return Written(path, rows, size)


def _write(
    path: Path, header: str, body: Iterator[bytes], progress: Progress | None
) -> tuple[int, int]:
    rows = 0
    with path.open("wb") as file:
        size = file.write(header.encode())
        while chunk := list(islice(body, CHUNK)):
            size += file.write(b"".join(chunk))
            rows += len(chunk)
            if progress is not None:
                progress(len(chunk))
    return rows, size
