"""One connection's HTTP: uvicorn's protocol, with a bound on all that is no body.

uvicorn keeps every header, every trailer and every request that comes before its turn, however many
there are. Here a head and its trailers are counted together, trailers are dropped, and one request
may wait for its turn: a client that has the last byte of an answer may be faster than this side.
"""

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from booksan.gateway.errors import Problem
from booksan.gateway.limits import Connections, Watch

#: Bytes of a head and its trailers together: with a ticket a head has up to 100 KiB.
MAX_HEAD_BYTES = 128 * 1024
#: Fields of a head and its trailers together: each takes some 200 bytes of memory besides its own.
MAX_FIELDS = 100
#: Bytes of the body of a request that waits for its turn: uvicorn reads on now and then.
MAX_WAITING = 1024 * 1024
#: Bytes that are parsed at once, and so by how much an unfinished field can be over the bound.
SLICE = 32 * 1024

_TOO_MANY = Problem(503, "too_many_connections", "too many connections; try again later")
_HEAD_TOO_LARGE = Problem(431, "head_too_large", "the head of the request is too large")
_MALFORMED = Problem(400, "malformed", "this is no HTTP request")


class _Enough(Exception):
    """Stops the parser."""


class BoundedProtocol(HttpToolsProtocol):
    #: All connections of the gateway; set by `protocol_class`.
    watched: Connections
    _watch: Watch | None = None
    #: No byte is looked at any more.
    _deaf = False
    _problem = _MALFORMED
    #: Of the head that is being read and, after it, of its trailers.
    _bytes = 0
    _fields = 0
    _in_head = True
    #: Bytes since the parser last had something to tell: an unfinished field, or nothing useful.
    _silent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        _send_at_once(transport)
        self._watch = self.watched.open(transport)
        if self._watch is None:
            self.watched.refuse(transport, _TOO_MANY)
        else:
            super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self.watched.close(self.transport, self._watch)
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._watch is None:
            return
        if not self._deaf and not self._watch.received(len(data)):
            self._refuse(_HEAD_TOO_LARGE)
        for begin in range(0, len(data), SLICE):
            if self._deaf:
                # Resumed now and then by those who look whether the client is there still.
                self.flow.pause_reading()
                return
            piece = data[begin : begin + SLICE]
            self._silent += len(piece)
            super().data_received(piece)
            if self._silent > MAX_HEAD_BYTES:
                self._refuse(_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        if self.pipeline:
            # The one that waits is the last one; who sends ahead must send again what is not
            # answered, as HTTP has it.
            self._deaf = True
            self.cycle.keep_alive = False
            raise _Enough
        self._bytes = self._fields = 0
        self._in_head = True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._count(len(name) + len(value))
        # A trailer could otherwise change what has been decided by the head.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._silent = 0
        super().on_body(body)
        if self.pipeline and len(self.cycle.body) > MAX_WAITING:
            self._deaf = True
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Called when the parser has stopped."""
        if not self._deaf:
            self._refuse(self._problem)

    def _count(self, size: int) -> None:
        self._silent = 0
        self._bytes += size
        if self._bytes > MAX_HEAD_BYTES or self._fields > MAX_FIELDS:
            self._problem = _HEAD_TOO_LARGE
            raise _Enough

    def _refuse(self, problem: Problem) -> None:
        """Ends the connection, with the reason unless an answer has begun."""
        self._deaf = True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Whoever is at work for the request sees that the client is gone, and says no more.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        self.watched.refuse(self.transport, problem)


def protocol_class(connections: Connections) -> type[asyncio.Protocol]:
    class Protocol(BoundedProtocol):
        watched = connections

    return Protocol


def _send_at_once(transport: asyncio.Transport) -> None:
    """Head and body of an answer go out in two pieces; without this the second waits 40 ms."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
