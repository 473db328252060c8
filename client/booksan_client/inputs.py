"""Looking at the input files before anything is begun."""

import codecs
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from booksan_client.cutter import Cutter, Header, check_columns, open_source, read_header
from booksan_client.dataset import Dataset, Source
from booksan_client.errors import InputError
from booksan_client.grammar import grammar, records
from booksan_client.journal import fingerprint

#: Bytes in which the reason for an unusable header is looked for.
_HEAD_BYTES = 4096
#: Records by which names that a header runs together are told from others.
_RECORDS_COUNTED = 100


@dataclass(frozen=True)
class Input:
    source: Source
    path: Path
    header: Header
    fingerprint: Mapping[str, Any]
    #: Bytes of the file, for progress; None if it is compressed.
    size: int | None


def look_at(dataset: Dataset, paths: Sequence[Path]) -> list[Input]:
    """The header of every file, checked; InputError says which file and what is wrong."""
    return [
        _look(dataset, source, path) for source, path in zip(dataset.sources, paths, strict=True)
    ]


def _look(dataset: Dataset, source: Source, path: Path) -> Input:
    try:
        _check_kind(path)
        with open_source(path) as stream:
            header = _checked_header(dataset, source, stream, path)
        found = fingerprint(path)
        return Input(source, path, header, found, None if _is_gzip(path) else found["size"])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _check_kind(path: Path) -> None:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError(
            f"{path}: is not a regular file, and could not be read again after a crash; "
            "save the data to a file first"
        )


def _checked_header(dataset: Dataset, source: Source, stream: BinaryIO, path: Path) -> Header:
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    try:
        header = read_header(stream, source.delimiter)
    except InputError as error:
        raise InputError(f"{error}{_format_hint(head, source.delimiter)}") from None
    stream.seek(header.end)
    header = header._replace(names=_split_names(header, source, stream))
    try:
        check_columns(header, source.needed, path)
    except InputError as error:
        hint = _order_hint(dataset, source, header) or _format_hint(head, source.delimiter)
        raise InputError(f"{error}{hint}") from None
    return header


def _split_names(header: Header, source: Source, stream: BinaryIO) -> tuple[str, ...]:
    """The names of the columns, of which the header of some files runs two together.

    So it is if more of the first records have the columns that are named apart than those that
    are named together.
    """
    apart = tuple(part for name in header.names for part in source.merged.get(name, (name,)))
    if len(apart) == len(header.names):
        return header.names
    widths = Counter(islice(_widths(header, source, stream), _RECORDS_COUNTED))
    return apart if widths[len(apart)] > widths[len(header.names)] else header.names


def _widths(header: Header, source: Source, stream: BinaryIO) -> Iterator[int]:
    """How many fields each readable record has."""
    rules = grammar(source.delimiter)
    for batch in Cutter(stream, header.end, delimiter=source.delimiter):
        for record in records(batch.data, source.delimiter):
            if record.error is None:
                yield len(rules.fields(batch.data[record.start : record.end]))


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _order_hint(dataset: Dataset, source: Source, header: Header) -> str:
    """Files in the wrong order are the likeliest reason for missing columns."""
    for other in dataset.sources:
        if other is not source and set(other.needed) <= set(header.names):
            order = ", ".join(each.name for each in dataset.sources)
            return f"; it looks like the file of {other.name!r}: the order is {order}"
    return ""


def _format_hint(head: bytes, delimiter: bytes) -> str:
    """What a spreadsheet or an old system may have made of the file."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "; it looks like UTF-16: convert it to UTF-8 first"
    if b"\r" in head and b"\n" not in head:
        return "; its lines end with CR alone: convert the line ends to LF first"
    line = head.partition(b"\n")[0]
    other = next((mark for mark in (b";", b"\t", b"|", b",") if mark in line), None)
    if other is not None and delimiter not in line:
        wrong, right = other.decode(), delimiter.decode()
        return f"; its fields seem to be separated by {wrong!r}: it must be {right!r}"
    return ""
