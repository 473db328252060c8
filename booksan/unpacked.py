"""How large an Arrow IPC stream becomes when it is read, told without reading it.

A compressed buffer begins with the length that it will have. Whoever decompresses takes that much
memory at once, so a few bytes could ask for all there is. The lengths are found by walking over the
stream's messages and their metadata, which are flatbuffers: tables whose fields are found by way of
a small table of offsets.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from booksan.errors import MessageError

#: What every message of a stream begins with; older writers leave it out, polars never does.
_CONTINUED = 0xFFFFFFFF
_DICTIONARY, _RECORDS = 2, 3
#: Numbers of the fields in the tables Message, DictionaryBatch and RecordBatch.
_HEADER_KIND, _HEADER, _BODY_LENGTH = 1, 2, 3
_DICTIONARY_DATA = 1
_ROWS, _BUFFERS, _COMPRESSION = 0, 2, 3

_BYTE, _SHORT, _OFFSET = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")
_BACK, _LONG, _BUFFER = struct.Struct("<i"), struct.Struct("<q"), struct.Struct("<qq")


def unpacked_size(body: bytes) -> int:
    """Bytes of all buffers, and one for each row: a column of nulls has no buffer at all."""
    try:
        return sum(map(_size, _batches(memoryview(body))))
    except (struct.error, ValueError) as error:
        raise MessageError(f"malformed body: {error}") from error


class _Batch(NamedTuple):
    table: "_Table"
    body: memoryview


def _batches(data: memoryview) -> Iterator[_Batch]:
    place = 0
    while place < len(data):
        mark, length = struct.unpack_from("<II", data, place)
        place += 8
        if mark != _CONTINUED:
            raise ValueError("not a stream of Arrow IPC")
        if length == 0:
            return
        metadata = data[place : place + length]
        message = _Table(metadata, _OFFSET.unpack_from(metadata)[0])
        place += length
        size = message.number(_BODY_LENGTH, _LONG)
        if not 0 <= size <= len(data) - place:
            raise ValueError(f"{size} bytes are announced, {len(data) - place} are there")
        kind = message.number(_HEADER_KIND, _BYTE)
        header = message.table(_HEADER)
        if header is not None and kind == _DICTIONARY:
            header = header.table(_DICTIONARY_DATA)
        if header is not None and kind in (_RECORDS, _DICTIONARY):
            yield _Batch(header, data[place : place + size])
        place += size


def _size(batch: _Batch) -> int:
    compressed = batch.table.table(_COMPRESSION) is not None
    rows = batch.table.number(_ROWS, _LONG)
    sizes = [
        _unpacked(batch.body[start : start + length], length) if compressed else length
        for start, length in batch.table.buffers(_BUFFERS)
    ]
    if rows < 0 or any(size < 0 for size in sizes):
        raise ValueError("a negative length")
    return rows + sum(sizes)


def _unpacked(buffer: memoryview, length: int) -> int:
    if length == 0:
        return 0
    (size,) = _LONG.unpack_from(buffer)
    # What would not have become smaller is as it is, after the mark.
    return length - 8 if size == -1 else int(size)


class _Table(NamedTuple):
    data: memoryview
    place: int

    def _field(self, number: int) -> int | None:
        """Where a field is; None if it has its default."""
        offsets = self.place - _BACK.unpack_from(self.data, self._checked(self.place))[0]
        (size,) = _SHORT.unpack_from(self.data, self._checked(offsets))
        entry = 4 + 2 * number
        if entry + 2 > size:
            return None
        (offset,) = _SHORT.unpack_from(self.data, offsets + entry)
        return self._checked(self.place + offset) if offset else None

    def number(self, number: int, form: struct.Struct) -> int:
        place = self._field(number)
        return 0 if place is None else int(form.unpack_from(self.data, place)[0])

    def table(self, number: int) -> "_Table | None":
        place = self._field(number)
        return None if place is None else _Table(self.data, self._follow(place))

    def buffers(self, number: int) -> Iterator[tuple[int, int]]:
        """A vector of (offset, length)."""
        place = self._field(number)
        if place is None:
            return
        start = self._follow(place)
        (count,) = _OFFSET.unpack_from(self.data, start)
        for entry in range(count):
            offset, length = _BUFFER.unpack_from(self.data, start + 4 + entry * _BUFFER.size)
            yield self._positive(offset), self._positive(length)

    def _follow(self, place: int) -> int:
        return self._checked(place + int(_OFFSET.unpack_from(self.data, place)[0]))

    def _checked(self, place: int) -> int:
        """A negative place would count from the end."""
        if not 0 <= place < len(self.data):
            raise ValueError("an offset leads outside")
        return place

    def _positive(self, value: int) -> int:
        if value < 0:
            raise ValueError("a negative length")
        return value
