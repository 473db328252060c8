"""The one CSV grammar of booksan, on bytes: where records begin and end.

Records are framed as `csv.reader(strict=True)` frames them, with lines that end at LF only.
A CR directly before the LF that ends a record belongs to the line end; any other CR is data.
An unreadable record ends with the line in which the error was found.

Two ways lead there. `frame` is exact for one record. `plain_run` and `table_rows` look at many
records at once, and vouch only for data in which no reader could see other records. Repeats
of groups in the patterns are bounded, not possessive: unbounded ones take memory for each
repeat, and possessive ones of groups are wrong in Python 3.11 before 3.11.5.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

#: Bytes of the longest record that is read, without its final line end.
MAX_RECORD = 4 * 1024 * 1024

OVER_LONG = "record over 4 MiB"
UNTERMINATED = "unterminated quote"
AFTER_QUOTE = "text after a closing quote"

_QUOTE, _CR, _LF = b'"\r\n'
_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+"'


class Record(NamedTuple):
    """A record at data[start:end], without its line end, or the error that makes it unreadable."""

    start: int
    end: int
    error: str | None


class Framed(NamedTuple):
    """Where a record ends, its line end included, and its error if it is unreadable."""

    end: int
    error: str | None


class Grammar:
    """The rules for one delimiter."""

    def __init__(self, delimiter: bytes) -> None:
        if len(delimiter) != 1 or delimiter in b'"\r\n\0' or not delimiter.isascii():
            raise ValueError(f"not a delimiter: {delimiter!r}")
        self.delimiter = delimiter
        mark = re.escape(delimiter)
        # A quote or a CR inside an unquoted field is data, as csv.reader has it.
        field = rb'(?:%b|(?!")[^%b\n]*+)' % (_QUOTED, mark)
        self._quoted = re.compile(_QUOTED)
        self._field = re.compile(field)
        self._some_fields = re.compile(rb"(?:%b%b){1,1000}" % (field, mark))
        self._last_field = re.compile(rb"%b\r?+\n" % field)
        self._blank_lines = re.compile(rb"(?:\r?+\n){1,1000}")
        self._borders = frozenset((b"", delimiter, b"\n"))
        self._not_structure = bytes(set(range(256)) - set(delimiter + b"\n"))

    def skip_blank_lines(self, data: bytes, start: int) -> int:
        while match := self._blank_lines.match(data, start):
            start = match.end()
        return start

    def plain_run(self, data: bytes) -> int:
        """The end of the whole records at the start of `data` if all are plain, otherwise 0.

        Plain means that every quote opens, doubles or closes. Blank lines count as records.
        """
        parts = data.split(b'"')
        outside = parts[::2]
        while outside and b"\n" not in outside[-1]:
            outside.pop()
        if not outside:
            return 0
        border = outside[-1].rfind(b"\n") + 1
        last = 2 * len(outside) - 2
        if not self._plain(outside):
            return 0
        # Counted from the end, which is near.
        after = sum(map(len, parts[last:])) + len(parts) - 1 - last
        return len(data) - after + border

    def table_rows(self, data: bytes, width: int) -> int:
        """How many records `data` has if all are plain and have `width` fields, otherwise 0.

        Then it holds no blank line and no CR but in quotes and line ends, and ends with a LF.
        """
        parts = data.split(b'"')
        if parts[-1][-1:] != b"\n" or len(parts) % 2 == 0 or not self._plain(parts[::2]):
            return 0
        outside = b"".join(parts[::2])
        if b"\r" in outside and outside.count(b"\r") != outside.count(b"\r\n"):
            return 0
        structure = outside.translate(None, self._not_structure)
        rows = len(structure) // width
        row = self.delimiter * (width - 1) + b"\n"
        return rows if structure == row * rows else 0

    def _plain(self, outside: list[bytes]) -> bool:
        """Whether quotes stand right, judged by the pieces outside of them.

        An empty piece between two quotes makes a doubled quote.
        """
        if not {piece[-1:] for piece in outside[:-1]} <= self._borders:
            return False
        heads = {piece[:1] for piece in outside[1:]} - self._borders
        if heads == {b"\r"}:
            heads = {piece[:2] for piece in outside[1:] if piece[:1] == b"\r"} - {b"\r\n"}
        return not heads

    def frame(self, data: bytes, start: int, stop: int, final: bool) -> Framed | None:
        """The record at `start`; None if data[:stop] does not hold all of it.

        `final` says that the file ends at `stop`. A blank line counts as a record.
        """
        while fields := self._some_fields.match(data, start, stop):
            start = fields.end()
        if last := self._last_field.match(data, start, stop):
            return Framed(last.end(), None)
        if start < stop and data[start] == _QUOTE:
            return self._frame_quoted(data, start, stop, final)
        return Framed(stop, None) if final else None

    def _frame_quoted(self, data: bytes, start: int, stop: int, final: bool) -> Framed | None:
        """The rest of a record from its last field, which begins with a quote."""
        quoted = self._quoted.match(data, start, stop)
        if not quoted:
            return Framed(stop, UNTERMINATED) if final else None
        after = quoted.end()
        if after == stop:
            return Framed(stop, None) if final else None
        newline = data.find(b"\n", after, stop)
        if newline >= 0:
            return Framed(newline + 1, AFTER_QUOTE)
        return Framed(stop, AFTER_QUOTE) if final else None

    def next_record(self, data: bytes, start: int, limit: int) -> Framed:
        """The record at `start` of a file that ends with `data`."""
        stop = min(len(data), start + limit + 2)
        framed = self.frame(data, start, stop, final=stop == len(data))
        if framed is None:
            newline = data.find(b"\n", passes_limit(data, start, limit))
            return Framed(newline + 1 if newline >= 0 else len(data), OVER_LONG)
        if content_end(data, start, framed.end) - start > limit:
            return Framed(framed.end, OVER_LONG)
        return framed

    def fields(self, record: bytes) -> list[bytes]:
        """The values of a readable record, given without its line end."""
        values: list[bytes] = []
        position = 0
        while position <= len(record):
            match = self._field.match(record, position)
            assert match is not None
            raw = match.group()
            values.append(raw[1:-1].replace(b'""', b'"') if raw[:1] == b'"' else raw)
            position = match.end() + 1
        return values

    def join(self, values: list[bytes]) -> bytes:
        """A canonical record of these values, with its line end."""
        quoted = (b'"%b"' % value.replace(b'"', b'""') for value in values)
        return self.delimiter.join(quoted) + b"\n"


@cache
def grammar(delimiter: bytes) -> Grammar:
    return Grammar(delimiter)


def content_end(data: bytes, start: int, end: int) -> int:
    """Where data[start:end] ends without its line end."""
    if end == start or data[end - 1] != _LF:
        return end
    if end - start >= 2 and data[end - 2] == _CR:
        return end - 2
    return end - 1


def passes_limit(data: bytes, start: int, limit: int) -> int:
    """Where to look for the LF of the line in which an over-long record passes the limit.

    The record's first limit + 2 bytes must be there.
    """
    first = start + limit + 1
    # Without this line end the record is just as long as it may be.
    return first + 1 if data[first - 1 : first + 1] == b"\r\n" else first


def records(data: bytes, delimiter: bytes = b",", *, limit: int = MAX_RECORD) -> Iterator[Record]:
    """All records of `data`, which begins at a record border and ends where the file may end."""
    rules = grammar(delimiter)
    start = rules.skip_blank_lines(data, 0)
    while start < len(data):
        end, error = rules.next_record(data, start, limit)
        yield Record(start, content_end(data, start, end), error)
        start = rules.skip_blank_lines(data, end)
