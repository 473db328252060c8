"""Looking at the input files before anything is begun."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from booksan.stages.graph import Dataset, Source
from booksan_client.cutter import Header, check_columns, open_source, read_header
from booksan_client.errors import InputError
from booksan_client.journal import fingerprint


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
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: not a regular file; it must be read again after a crash")
    with open_source(path) as stream:
        header = read_header(stream, source.delimiter)
    try:
        check_columns(header, source.needed, path)
    except InputError as error:
        raise InputError(f"{error}{_hint(dataset, source, header)}") from None
    found = fingerprint(path)
    return Input(source, path, header, found, None if _is_gzip(path) else found["size"])


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _hint(dataset: Dataset, source: Source, header: Header) -> str:
    """Files in the wrong order are the likeliest reason for missing columns."""
    for other in dataset.sources:
        if other is not source and set(other.needed) <= set(header.names):
            order = ", ".join(each.name for each in dataset.sources)
            return f"; it looks like the file of {other.name!r}: the order is {order}"
    return ""
