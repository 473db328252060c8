"""Messages: what travels between gateway, stages and home, and how it looks in bytes.

A message is `(client, sender, seq)` plus a digest of what it was made from. Batches and ends are
numbered on each stream from a sender to a receiving shard; control messages stand outside of the
numbering and are idempotent. In bytes: a fixed prefix, a JSON header, an Arrow IPC body.
"""

import hashlib
import io
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from booksan.errors import MessageError
from booksan.spec import Spec, spec_from_json

if TYPE_CHECKING:
    import polars as pl


VERSION = 1
#: Bytes of a whole message; RabbitMQ 4 refuses more than 16 MiB, and a worker holds a few at once.
MAX_MESSAGE = 8 * 1024 * 1024
#: Bytes that the body of a message may have in memory. Its own batch had a few megabytes, so
#: only text that was made to shrink comes near; memory must not depend on who wrote to a queue.
MAX_FRAME = 512 * 1024 * 1024

#: magic, version, length of the header, length of the body, crc32 of both.
_PREFIX = struct.Struct("<4sBIII")
_MAGIC = b"bksn"


class Kind(StrEnum):
    BATCH = "batch"
    END = "end"
    CONTROL = "control"


class Control(StrEnum):
    #: gateway -> home: a client wants to begin.
    CREATED = "created"
    #: shard -> home: a source has arrived completely at a stage that others are joined to.
    COMPLETE = "complete"
    #: shard -> home: this run cannot give its answers.
    FAILED = "failed"
    #: shard -> home: a dead letter that failed the run was replayed and is handled.
    FORGIVEN = "forgiven"
    #: gateway -> home: the client has its results, or does not want them any more.
    RELEASE = "release"
    #: home -> shards: delete all that is the client's.
    GONE = "gone"
    #: receiver -> sender: something of yours has not come; send all that you sent to me again.
    REPEAT = "repeat"


@dataclass(frozen=True)
class Message:
    spec: Spec
    sender: str
    kind: Kind
    #: Of a batch its number on the stream, of an end the number of batches, of a control 0.
    seq: int
    digest: str
    data: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""

    @property
    def client(self) -> str:
        return self.spec.client

    @property
    def control(self) -> Control | None:
        return Control(self.data["control"]) if self.kind is Kind.CONTROL else None

    @property
    def input(self) -> str:
        """The source or the stage that the message comes from, without the shard."""
        first, _, second = self.sender.partition("/")
        return second if first == "gateway" else first


def digest_of(*parts: str | bytes | int) -> str:
    """A digest over parts that cannot run into each other; sha256 is the fastest in hardware."""
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:32]


def end_message(spec: Spec, sender: str, length: int) -> Message:
    return Message(
        spec, sender, Kind.END, length, digest_of(spec.digest, sender, Kind.END.value, length)
    )


def control_message(spec: Spec, sender: str, control: Control, **data: Any) -> Message:
    return Message(
        spec,
        sender,
        Kind.CONTROL,
        0,
        digest_of(spec.digest, sender, control.value, json.dumps(data, sort_keys=True)),
        {"control": control.value, **data},
    )


def encode(message: Message) -> bytes:
    header = json.dumps(
        {
            "kind": message.kind.value,
            "sender": message.sender,
            "seq": message.seq,
            "digest": message.digest,
            "data": dict(message.data),
            "spec": message.spec.json,
        },
        separators=(",", ":"),
    ).encode()
    checksum = zlib.crc32(message.body, zlib.crc32(header))
    prefix = _PREFIX.pack(_MAGIC, VERSION, len(header), len(message.body), checksum)
    size = len(prefix) + len(header) + len(message.body)
    if size > MAX_MESSAGE:
        raise MessageError(
            f"message {message.seq} of {message.sender} has {size} bytes; the limit is "
            f"{MAX_MESSAGE}: send smaller batches"
        )
    return b"".join((prefix, header, message.body))


def decode(data: bytes) -> Message:
    """The message in these bytes; MessageError for anything that `encode` did not make."""
    header, body = _split(data)
    try:
        fields = json.loads(header)
        message = Message(
            spec=spec_from_json(fields["spec"]),
            sender=fields["sender"],
            kind=Kind(fields["kind"]),
            seq=fields["seq"],
            digest=fields["digest"],
            data=fields["data"],
            body=body,
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"malformed header: {error!r}") from error
    _check(message)
    return message


def _split(data: bytes) -> tuple[bytes, bytes]:
    if len(data) > MAX_MESSAGE:
        raise MessageError(f"{len(data)} bytes; a message has at most {MAX_MESSAGE}")
    if len(data) < _PREFIX.size:
        raise MessageError(f"{len(data)} bytes are too few for a message")
    magic, version, header_size, body_size, checksum = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise MessageError(f"begins with {magic!r}, not {_MAGIC!r}: not a message of booksan")
    if version != VERSION:
        raise MessageError(f"message version {version}; this booksan reads version {VERSION}")
    if len(data) != _PREFIX.size + header_size + body_size:
        raise MessageError(f"{len(data)} bytes do not fit the lengths in the prefix")
    if zlib.crc32(memoryview(data)[_PREFIX.size :]) != checksum:
        raise MessageError("the checksum does not fit the content")
    middle = _PREFIX.size + header_size
    return data[_PREFIX.size : middle], data[middle:]


def _check(message: Message) -> None:
    if not isinstance(message.sender, str) or message.sender.count("/") != 1:
        raise MessageError(f"malformed sender: {message.sender!r}")
    if type(message.seq) is not int or message.seq < 0:
        raise MessageError(f"malformed seq: {message.seq!r}")
    if not isinstance(message.digest, str) or not message.digest:
        raise MessageError(f"malformed digest: {message.digest!r}")
    if not isinstance(message.data, dict):
        raise MessageError(f"malformed data: {message.data!r}")
    control = message.data.get("control")
    if message.kind is Kind.CONTROL and (
        not isinstance(control, str) or control not in set(Control)
    ):
        raise MessageError(f"unknown control message: {control!r}")


def to_body(frame: "pl.DataFrame") -> bytes:
    """Arrow IPC; lz4, because text shrinks to half and the disk is slower than lz4."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="lz4")
    return buffer.getvalue()


def to_frame(body: bytes, limit: int | None = MAX_FRAME) -> "pl.DataFrame":
    """The rows in a body; one that would become larger than the limit is not even begun."""
    import polars as pl

    if limit is not None and (size := unpacked_size(body)) > limit:
        raise MessageError(
            f"malformed body: {len(body)} bytes would become {size}; the limit is {limit}"
        )
    try:
        return pl.read_ipc_stream(io.BytesIO(body))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise MessageError(f"malformed body: {error}") from error


# How large an Arrow IPC stream becomes when it is read, told without reading it.
#
# A compressed buffer begins with the length that it will have. Whoever decompresses takes that
# much memory at once, so a few bytes could ask for all there is. The lengths are found by walking
# over the stream's messages and their metadata, which are flatbuffers: tables whose fields are
# found by way of a small table of offsets.

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
