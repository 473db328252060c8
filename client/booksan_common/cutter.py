"""Cut a CSV file into batches of whole records, with bounded memory.

A batch is a pure function of the file's bytes from its start on and of the settings, so a
cutter that begins again at the start of any batch gives the very same batches from there on.
"""

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self

from booksan_common.errors import InputError
from booksan_common.grammar import (
    AFTER_QUOTE,
    MAX_RECORD,
    OVER_LONG,
    UNTERMINATED,
    Grammar,
    content_end,
    grammar,
    passes_limit,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


#: Bytes and lines of a batch: large enough that a request costs little, small enough to repeat.
BATCH_BYTES = 4 * 1024 * 1024
BATCH_LINES = 65536

_BOM = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 256 * 1024
_COLUMNS_SHOWN = 12


class Header(NamedTuple):
    """The column names, and the offset in the decompressed file after the header record."""

    names: tuple[str, ...]
    end: int


class Batch(NamedTuple):
    """The file's bytes from start to end, as they are sent.

    Leading blank lines and the tail of an over-long record are counted but not sent.
    """

    start: int
    end: int
    data: bytes


class _Source(io.RawIOBase):
    """A file or its decompressed content; what goes wrong in reading names the file."""

    def __init__(self, file: io.BufferedReader, path: Path, zipped: bool) -> None:
        self._file = file
        self._content: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if zipped else file
        self._path = path
        self.name = str(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        with _reading(self._path):
            return self._content.readinto(buffer)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        with _reading(self._path):
            return self._content.seek(offset, whence)

    def tell(self) -> int:
        return self._content.tell()

    def close(self) -> None:
        if not self.closed:
            self._content.close()
            self._file.close()
        super().close()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path}: the gzip data is broken or cut short: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def open_source(path: Path) -> BinaryIO:
    """Open a file, plain or gzip, as a stream of its decompressed bytes."""
    if path.is_dir():
        raise InputError(f"{path}: is a directory, not a file")
    with _reading(path):
        file = path.open("rb")
        zipped = file.peek(2)[:2] == GZIP_MAGIC
    if path.suffix == ".gz" and not zipped:
        file.close()
        raise InputError(f"{path}: is named .gz but holds no gzip data")
    return io.BufferedReader(_Source(file, path, zipped), _READ_BYTES)


class _Buffer:
    """The bytes of a stream that are read but not yet used; `offset` is where they begin."""

    def __init__(self, stream: BinaryIO, offset: int) -> None:
        self._stream = stream
        self.offset = offset
        self.data = b""

    def fill(self, size: int) -> None:
        """Hold `size` bytes or more, or else all that the file still has."""
        parts = [self.data]
        have = len(self.data)
        while have < size:
            part = self._stream.read(max(size - have, _READ_BYTES))
            if not part:
                break
            parts.append(part)
            have += len(part)
        if len(parts) > 1:
            self.data = b"".join(parts)

    def take(self, size: int) -> bytes:
        taken, self.data = self.data[:size], self.data[size:]
        self.offset += len(taken)
        return taken

    def skip_blank_lines(self, rules: Grammar) -> None:
        self.fill(2)
        while blank := rules.skip_blank_lines(self.data, 0):
            self.take(blank)
            self.fill(2)

    def skip_line(self, start: int) -> None:
        """Drop everything up to the next LF at or after data[start]."""
        while (newline := self.data.find(b"\n", start)) < 0 and self.data:
            self.take(len(self.data))
            self.fill(1)
            start = 0
        self.take(newline + 1)


class Cutter:
    """An iterator of batches over a stream that stands at `offset`, a record border."""

    def __init__(
        self,
        stream: BinaryIO,
        offset: int,
        *,
        batch_bytes: int = BATCH_BYTES,
        batch_lines: int = BATCH_LINES,
        delimiter: bytes = b",",
        limit: int = MAX_RECORD,
    ) -> None:
        if batch_bytes < 1 or batch_lines < 1:
            raise ValueError("a batch holds at least one byte and one line")
        self._buffer = _Buffer(stream, offset)
        self._rules = grammar(delimiter)
        # No over-long record fits in, so each of them gets a batch of its own.
        self._window = min(batch_bytes, limit)
        self._lines = batch_lines
        self._limit = limit

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        buffer = self._buffer
        start = buffer.offset
        buffer.skip_blank_lines(self._rules)
        # One byte more than needed tells whether the file ends here.
        buffer.fill(self._window + 1)
        if not buffer.data:
            raise StopIteration
        whole = self._whole_records(buffer.data)
        data = buffer.take(whole) if whole else self._single_record()
        return Batch(start, buffer.offset, data)

    def _whole_records(self, data: bytes) -> int:
        """The end of the records that fit into one batch; 0 if not even one does."""
        stop = self._line_stop(data, min(len(data), self._window))
        final = stop == len(data)
        end = self._rules.plain_run(data[:stop])
        while end < stop and (framed := self._rules.frame(data, end, stop, final)):
            end = framed.end
        return end

    def _line_stop(self, data: bytes, stop: int) -> int:
        """Where the lines of one batch end, at most `stop`."""
        if data.count(b"\n", 0, stop) <= self._lines:
            return stop
        rest = data[:stop].split(b"\n", self._lines)[-1]
        return stop - len(rest)

    def _single_record(self) -> bytes:
        """The next record alone; of an over-long one just enough to show that it is."""
        buffer = self._buffer
        shown = self._limit + 2
        buffer.fill(shown + 1)
        stop = min(len(buffer.data), shown)
        framed = self._rules.frame(buffer.data, 0, stop, final=stop == len(buffer.data))
        if framed is not None:
            return buffer.take(framed.end)
        data = buffer.data[:shown] + b"\n"
        buffer.skip_line(passes_limit(buffer.data, 0, self._limit))
        return data


def read_header(stream: BinaryIO, delimiter: bytes = b",", *, limit: int = MAX_RECORD) -> Header:
    """The first record of a stream that stands at the very start of its file."""
    rules = grammar(delimiter)
    buffer = _Buffer(stream, 0)
    buffer.fill(len(_BOM))
    if buffer.data.startswith(_BOM):
        buffer.take(len(_BOM))
    buffer.skip_blank_lines(rules)
    buffer.fill(limit + 3)
    record = _header_record(buffer.data, rules, limit, str(getattr(stream, "name", "input")))
    return record._replace(end=buffer.offset + record.end)


def _header_record(data: bytes, rules: Grammar, limit: int, name: str) -> Header:
    if not data:
        raise InputError(f"{name}: the file is empty; a header line is needed")
    end, error = rules.next_record(data, 0, limit)
    if b"\0" in data[:end]:
        raise InputError(f"{name}: the header holds zero bytes: not a CSV file in UTF-8")
    if error == UNTERMINATED:
        raise InputError(f"{name}: the header has a quote that is never closed")
    if error == OVER_LONG:
        raise InputError(f"{name}: the header is longer than {limit} bytes: not a CSV file")
    if error == AFTER_QUOTE:
        raise InputError(f"{name}: the header has text after a closing quote")
    values = rules.fields(data[: content_end(data, 0, end)])
    try:
        return Header(tuple(value.decode() for value in values), end)
    except UnicodeDecodeError:
        raise InputError(f"{name}: the header is not UTF-8; convert the file first") from None


def check_columns(header: Header, needed: Sequence[str], path: Path) -> None:
    """Refuse a file in which a needed column is missing or stands twice."""
    missing = [name for name in needed if name not in header.names]
    twice = [name for name in needed if header.names.count(name) > 1]
    if missing:
        raise InputError(f"{path}: missing column {_list(missing)}; found {_list(header.names)}")
    if twice:
        raise InputError(f"{path}: column twice: {_list(twice)}; found {_list(header.names)}")


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:60]) for name in names[:_COLUMNS_SHOWN])
    more = len(names) - _COLUMNS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
