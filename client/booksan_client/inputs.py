"""Looking at the input files before anything is begun; what is no CSV is told as what it is."""

import codecs
import re
import shlex
import stat
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from booksan_client.state import fingerprint
from booksan_common.cutter import (
    GZIP_MAGIC,
    Cutter,
    Header,
    check_columns,
    open_source,
    read_header,
)
from booksan_common.errors import InputError
from booksan_common.grammar import grammar, records
from booksan_common.names import similar
from booksan_common.shapes import Dataset, Source

# What people give in place of a CSV file, and what makes a CSV file of it.
#
# Looked at only when something cannot be read as CSV: a column may have any name.

#: Bytes of a file by which it is known; a tar archive says what it is after 257.
_MAGIC_BYTES = 512
_TAR_AT, _TAR = 257, b"ustar"
#: `https://x` becomes `https:/x` in a path.
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/+(?P<rest>.+)", re.IGNORECASE)
_FETCH = {"s3": "aws s3 cp {url} .", "gs": "gsutil cp {url} .", "hdfs": "hdfs dfs -get {url} ."}
#: Entries of a zip archive that are shown.
_ENTRIES_SHOWN = 3


class _Kind(NamedTuple):
    """What a file is called, and what to do with it: {file} and {csv} are names for a shell."""

    what: str
    advice: str


def _unpacked(what: str, command: str) -> _Kind:
    return _Kind(f"is compressed with {what}, and booksan reads only gzip", f"unpack it: {command}")


def _converted(what: str, reader: str) -> _Kind:
    command = f"import sys, polars; polars.{reader}(sys.argv[1]).sink_csv(sys.argv[2])"
    return _Kind(
        f"is {what}, which booksan cannot read yet",
        f'make CSV of it: {shlex.quote(sys.executable)} -c "{command}" {{file}} {{csv}}',
    )


_SHEET = _Kind("is a spreadsheet", "save its sheet as CSV in UTF-8, with commas, and give that")
_UNREAD = "make CSV of it with the program that wrote it"
_MAGIC = {
    b"BZh": _unpacked("bzip2", "bzip2 -dk {file}"),
    b"\x28\xb5\x2f\xfd": _unpacked("zstd", "zstd -d {file}"),
    b"\xfd7zXZ\0": _unpacked("xz", "xz -dk {file}"),
    b"\x04\x22\x4d\x18": _unpacked("lz4", "lz4 -d {file} {csv}"),
    b"\x1f\x9d": _unpacked("compress", "gzip -dk {file}"),
    GZIP_MAGIC: _unpacked("gzip twice", "gzip -dc {file} > {csv}.gz"),
    b"7z\xbc\xaf\x27\x1c": _unpacked("7-Zip", "7z x {file}"),
    b"Rar!\x1a\x07": _unpacked("RAR", "unrar x {file}"),
    b"PAR1": _converted("a Parquet file", "scan_parquet"),
    b"ARROW1": _converted("an Arrow file", "scan_ipc"),
    b"ORC": _Kind("is an ORC file, which booksan cannot read", _UNREAD),
    b"Obj\x01": _Kind("is an Avro file, which booksan cannot read", _UNREAD),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": _SHEET,
    b"SQLite format 3\0": _Kind(
        "is an SQLite database",
        "make CSV of one table: sqlite3 -header -csv {file} 'select * from TABLE' > {csv}",
    ),
    b"PK\x03\x04": _Kind("is a zip archive that is cut short", "fetch it again"),
    b"%PDF-": _Kind("is a PDF", "look for the data behind it"),
    b"version https://git-lfs": _Kind(
        "only says where Git keeps the file", "fetch it: git lfs pull"
    ),
}
_TAR_ARCHIVE = _Kind("is a tar archive", "unpack it: tar -xf {file}")
#: Text that is no CSV: these beginnings mean nothing if the columns are there.
_TEXTS: dict[str, _Kind] = {
    r"\s*<(!doctype html|html|head|body)": _Kind(
        "is a web page, perhaps of a login in place of the data", "download the data again"
    ),
    r"\s*<\?xml": _Kind("is XML, which booksan cannot read", _UNREAD),
    r"\s*\{.*\}\s*(\n|$)": _converted("JSON in lines", "scan_ndjson"),
    r"\s*[\[{]\s*[\[{\"]": _Kind("is JSON, which booksan cannot read", _UNREAD),
}


def unusable_name(path: Path) -> str | None:
    """What is named in place of a file of this machine; None if it may be one."""
    if path.exists():
        return None
    if str(path) == "-":
        return (
            "standard input could not be read again after a crash; save the data to a file first, "
            "and name that"
        )
    found = _URL.fullmatch(str(path))
    if found is None:
        return None
    scheme = found["scheme"].lower()
    url = shlex.quote(f"{scheme}://{found['rest']}")
    fetch = _FETCH.get(scheme, "curl -fLO {url}").format(url=url)
    return f"{scheme}://{found['rest']} is a URL, and booksan reads files of this machine: {fetch}"


def recognised(path: Path) -> str | None:
    """What this file is and what to do with it; None if it may be meant as CSV."""
    head = _head(path)
    if zipfile.is_zipfile(path):
        return _archive(path)
    if head[_TAR_AT:].startswith(_TAR):
        return _told(_TAR_ARCHIVE, path)
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return _told(kind, path)
    text = head.decode("utf-8", errors="replace").lower()
    for pattern, kind in _TEXTS.items():
        if re.match(pattern, text):
            return _told(kind, path)
    return None


def _head(path: Path) -> bytes:
    """Of what is in it, if it is compressed with gzip; nothing if that is broken."""
    try:
        with open_source(path) as stream:
            return stream.read(_MAGIC_BYTES)
    except InputError:
        with path.open("rb") as file:
            head = file.read(_MAGIC_BYTES)
        return b"" if head.startswith(GZIP_MAGIC) else head


def _told(kind: _Kind, path: Path) -> str:
    names = {"file": shlex.quote(str(path)), "csv": shlex.quote(f"{path.with_suffix('')}.csv")}
    return f"{kind.what}; {kind.advice.format(**names)}"


def _archive(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    if "xl/workbook.xml" in names or "mimetype" in names:
        return _told(_SHEET, path)
    ranked = sorted(names, key=lambda name: not name.lower().endswith((".csv", ".csv.gz")))
    commands = [_extraction(path, name) for name in ranked[:_ENTRIES_SHOWN]]
    more = f" (and {len(ranked) - _ENTRIES_SHOWN} more)" if len(ranked) > _ENTRIES_SHOWN else ""
    return f"is a zip archive; take the file out of it: {' or '.join(commands)}{more}"


def _extraction(path: Path, name: str) -> str:
    source, entry, target = map(shlex.quote, (str(path), name, Path(name).name))
    return f"unzip -p {source} {entry} > {target}"


# Looking at the input files before anything is begun.

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


def look_at(
    dataset: Dataset,
    paths: Sequence[Path],
    others: Callable[[], Iterable[Dataset]] = tuple,
) -> list[Input]:
    """The header of every file, checked; InputError says which file and what is wrong.

    `others` are asked for only when a file does not fit: it may be one of theirs.
    """
    return [
        _look(dataset, source, path, others)
        for source, path in zip(dataset.sources, paths, strict=True)
    ]


def _look(
    dataset: Dataset, source: Source, path: Path, others: Callable[[], Iterable[Dataset]]
) -> Input:
    try:
        _check_place(path, source)
        try:
            header = _header(source, path)
        except InputError as error:
            why = recognised(path) or _misplaced(dataset, source, path, others)
            raise InputError(f"{path}: {why}") if why else error from None
        found = fingerprint(path)
        return Input(source, path, header, found, None if _is_gzip(path) else found["size"])
    except FileNotFoundError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}{_near(path)}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _check_place(path: Path, source: Source) -> None:
    told = unusable_name(path)
    if told is not None:
        raise InputError(told)
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        inside = path / source.file_name
        hint = f"; give the file in it: {inside}" if source.file_name and inside.is_file() else ""
        raise InputError(f"{path}: is a directory, not a file{hint}")
    if not stat.S_ISREG(mode):
        raise InputError(
            f"{path}: is not a regular file, and could not be read again after a crash; "
            "save the data to a file first"
        )


def _near(path: Path) -> str:
    """A file beside it that was probably meant."""
    names = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    near = similar(path.name, names)
    return f"; did you mean {str(path.with_name(near))!r}?" if near else ""


def _header(source: Source, path: Path) -> Header:
    with open_source(path) as stream:
        head = stream.read(_HEAD_BYTES)
        stream.seek(0)
        try:
            header = read_header(stream, source.delimiter)
            stream.seek(header.end)
            header = header._replace(names=_split_names(header, source, stream))
            check_columns(header, source.needed, path)
        except InputError as error:
            raise InputError(f"{error}{_format_hint(head, source.delimiter, path)}") from None
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
        return file.read(2) == GZIP_MAGIC


def _misplaced(
    dataset: Dataset, source: Source, path: Path, others: Callable[[], Iterable[Dataset]]
) -> str | None:
    """Files in the wrong order, or of another data set, are the likeliest reason of all."""
    for other in dataset.sources:
        if other is not source and _fits(other, path):
            order = ", ".join(each.name for each in dataset.sources)
            return (
                f"looks like the file of {other.name!r}, not of {source.name!r}: give the files "
                f"in the order {order}"
            )
    for known in others():
        for other in known.sources if known.name != dataset.name else ():
            if _fits(other, path):
                return (
                    f"looks like the file of {other.name!r} of the data set {known.name}, and "
                    f"{dataset.name} needs that of {source.name!r}; name {known.name} as the data "
                    "set, or give another file"
                )
    return None


def _fits(source: Source, path: Path) -> bool:
    try:
        _header(source, path)
    except InputError:
        return False
    return True


def _format_hint(head: bytes, delimiter: bytes, path: Path) -> str:
    """What a spreadsheet or an old system may have made of the file."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        names = f"{shlex.quote(str(path))} > {shlex.quote(str(path.with_suffix('.utf8.csv')))}"
        return (
            f"; it looks like UTF-16: convert it to UTF-8 first: iconv -f UTF-16 -t UTF-8 {names}"
        )
    if b"\0" in head:
        return ""
    if b"\r" in head and b"\n" not in head:
        return "; its lines end with CR alone: convert the line ends to LF first"
    line = head.partition(b"\n")[0]
    other = next((mark for mark in (b";", b"\t", b"|", b",") if mark in line), None)
    if other is not None and delimiter not in line:
        wrong, right = other.decode(), delimiter.decode()
        return f"; its fields seem to be separated by {wrong!r}: it must be {right!r}; save it so"
    return ""
