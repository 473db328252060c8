"""Receiving the body of a request: bounded in bytes, also after decompression, and in time."""

import asyncio
import zlib
from collections.abc import Callable
from typing import Protocol

import zstandard
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from booksan.gateway.errors import Problem

#: Bytes of a request that is not a batch.
MAX_JSON = 1024 * 1024
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


class Gzip:
    """One or more gzip members."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._begun = False

    def feed(self, data: bytes, room: int) -> bytes:
        parts = []
        while data and room >= 0:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            self._begun = True
            try:
                part = self._member.decompress(data, room + 1)
            except zlib.error as error:
                raise _broken("gzip") from error
            parts.append(part)
            room -= len(part)
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return b"".join(parts)

    def finish(self) -> None:
        if not self._begun or not self._member.eof:
            raise _broken("gzip")


class Zstd:
    """One or more zstd frames; each small piece of input gives a bounded piece of output."""

    #: Input that is decompressed at once. A block of zstd gives at most 128 KiB, and takes three
    #: bytes or more, so that this many bytes cannot give much before the cap is looked at.
    _STEP = 256
    #: Memory for the window, so that a header cannot ask for more.
    _WINDOW = 8 * 1024 * 1024

    def __init__(self) -> None:
        self._frame = self._new()
        self._begun = False

    def feed(self, data: bytes, room: int) -> bytes:
        parts = []
        view = memoryview(data)
        while view and room >= 0:
            if self._frame.eof:
                self._frame = self._new()
            self._begun = True
            step, view = view[: self._STEP], view[self._STEP :]
            try:
                part = self._frame.decompress(step)
            except zstandard.ZstdError as error:
                raise _broken("zstd") from error
            if self._frame.unused_data:
                view = memoryview(self._frame.unused_data + bytes(view))
            parts.append(part)
            room -= len(part)
        return b"".join(parts)

    def finish(self) -> None:
        if not self._begun or not self._frame.eof:
            raise _broken("zstd")

    def _new(self) -> "zstandard.ZstdDecompressionObj":
        return zstandard.ZstdDecompressor(max_window_size=self._WINDOW).decompressobj()


DECODERS: dict[str, Callable[[], Decoder]] = {
    "": Plain,
    "identity": Plain,
    "gzip": Gzip,
    "x-gzip": Gzip,
    "zstd": Zstd,
}


def _broken(name: str) -> Problem:
    return Problem(400, "broken_compression", f"the {name} data is broken or cut short")


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
    size = 0
    async for data in request.stream():
        part = decoder.feed(data, limit - size)
        size += len(part)
        if size > limit:
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
