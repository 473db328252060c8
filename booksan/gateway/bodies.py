"""Receiving the body of a request: bounded in bytes, also after decompression, and in time."""

import asyncio
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import zstandard
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from booksan.gateway.errors import Problem

#: Bytes of a request that is not a batch.
MAX_JSON = 1024 * 1024
#: Members or frames of a compressed body: more of them are work for nothing.
MAX_PARTS = 1000
#: By how much data that cannot be compressed may grow in the attempt.
GROWTH = 1.1
#: What a refused request still has on its way is taken and dropped, up to so many bytes and
#: seconds: a client that is still sending would otherwise see a broken connection, no answer.
DRAIN_BYTES = 64 * 1024 * 1024
DRAIN_SECONDS = 5.0


class Decoder(Protocol):
    def feed(self, data: bytes, room: int) -> bytes:
        """Decompressed bytes, at most one more than there is room for."""

    def finish(self) -> None:
        """Raises Problem when the end is missing."""


class Plain:
    def feed(self, data: bytes, room: int) -> bytes:
        return data

    def finish(self) -> None:
        pass


class Compressed(ABC):
    """One or more compressed parts, decompressed step by step so that the cap is seen in time."""

    #: Bytes of input that are decompressed at once.
    step: int

    def __init__(self, name: str) -> None:
        self._name = name
        self._parts = 0
        self._ended = True

    def feed(self, data: bytes, room: int) -> bytes:
        found: list[bytes] = []
        view = memoryview(data)
        while view and room >= 0:
            if self._ended:
                self._begin_part()
            try:
                piece, used, self._ended = self._decompress(view[: self.step], room + 1)
            except (zlib.error, zstandard.ZstdError) as error:
                raise self._broken() from error
            found.append(piece)
            room -= len(piece)
            view = view[used:]
        return b"".join(found)

    def finish(self) -> None:
        if not self._parts or not self._ended:
            raise self._broken()

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise Problem(
                400, "broken_compression", f"the {self._name} data has over {MAX_PARTS} parts"
            )
        self._begin()

    def _broken(self) -> Problem:
        text = f"the {self._name} data is broken or cut short"
        return Problem(400, "broken_compression", text)

    @abstractmethod
    def _begin(self) -> None:
        """Makes ready for the next part."""

    @abstractmethod
    def _decompress(self, data: memoryview, most: int) -> tuple[bytes, int, bool]:
        """What came out, how many bytes went in, and whether the part is at its end."""


class Gzip(Compressed):
    step = 16 * 1024

    def __init__(self) -> None:
        super().__init__("gzip")

    def _begin(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    def _decompress(self, data: memoryview, most: int) -> tuple[bytes, int, bool]:
        piece = self._member.decompress(data, most)
        left = len(self._member.unused_data) + len(self._member.unconsumed_tail)
        return piece, len(data) - left, self._member.eof


class Zstd(Compressed):
    #: A block of zstd takes three bytes or more and gives at most 128 KiB, so that one step gives
    #: about 10 MiB at most.
    step = 256
    #: Bytes of memory for the window: a header cannot ask for more.
    _window = 8 * 1024 * 1024

    def __init__(self) -> None:
        super().__init__("zstd")

    def _begin(self) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=self._window)
        self._frame = decompressor.decompressobj()

    def _decompress(self, data: memoryview, most: int) -> tuple[bytes, int, bool]:
        piece = self._frame.decompress(data)
        return piece, len(data) - len(self._frame.unused_data), self._frame.eof


DECODERS: dict[str, Callable[[], Decoder]] = {
    "": Plain,
    "identity": Plain,
    "gzip": Gzip,
    "x-gzip": Gzip,
    "zstd": Zstd,
}


def _too_large(limit: int) -> Problem:
    return Problem(413, "too_large", f"the body has more than {limit} bytes; send less at once")


def decoder_of(request: Request) -> Decoder:
    name = request.headers.get("Content-Encoding", "").strip().lower()
    if name not in DECODERS:
        raise Problem(415, "unknown_encoding", "Content-Encoding must be gzip, zstd or absent")
    return DECODERS[name]()


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """The whole body, decompressed, or a Problem."""
    decoder = decoder_of(request)
    announced = request.headers.get("Content-Length", "")
    if isinstance(decoder, Plain) and announced.isdecimal() and int(announced[:20]) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, decoder, limit)
    except TimeoutError:
        raise Problem(
            408, "too_slow", f"the body did not come within {seconds:g} seconds"
        ) from None
    except ClientDisconnect:
        raise Problem(400, "cut_short", "the connection ended before the body did") from None


async def _read(request: Request, decoder: Decoder, limit: int) -> bytes:
    parts: list[bytes] = []
    size = received = 0
    async for data in request.stream():
        part = decoder.feed(data, limit - size)
        size += len(part)
        received += len(data)
        if size > limit or received > limit * GROWTH + 1024:
            raise _too_large(limit)
        parts.append(part)
    decoder.finish()
    return b"".join(parts)


class Incoming:
    """The receiving side of a request, which remembers whether its body has come."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        self._waits = headers.get("Expect", "").lower() == "100-continue"
        self.complete = "Transfer-Encoding" not in headers and headers.get(
            "Content-Length", "0"
        ) in ("", "0")

    async def receive(self) -> Message:
        message = await self._receive()
        self._waits = False
        if message["type"] == "http.request" and not message.get("more_body", False):
            self.complete = True
        return message

    async def drop(self) -> bool:
        """Drops what is still coming; False if the connection must be closed instead."""
        if self.complete or self._waits:
            return self.complete
        size = 0
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.complete and size <= DRAIN_BYTES:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        return False
                    size += len(message.get("body", b""))
        except TimeoutError:
            return False
        return self.complete
