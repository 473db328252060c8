"""One connection's HTTP, with a bound on all that it may take."""

import asyncio
import json
import resource
import socket
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from booksan.errors import UsageError
from booksan.gateway.errors import Problem

# What one connection, and all of them together, may take: numbers and times.
#
# uvicorn has no time limit for the head of a request, so the protocol tells what arrives, and the
# application when a request begins and ends.

#: Seconds that a connection may stay without a request after its last one.
KEEP_ALIVE_SECONDS = 75
#: Bytes that may come while no request is in hand: asyncio reads up to 256 KiB at once, of which
#: most may be the beginning of a body, or the rest of one that nobody wants any more.
MAX_IDLE_BYTES = 512 * 1024
#: Seconds for a refused client to read why.
REFUSAL_SECONDS = 1.0
#: Clients that are being refused at once; those beyond are cut off without a word.
MAX_REFUSALS = 100
#: Open files that are not connections: databases, queues, other gateways.
OTHER_FILES = 256

#: On every answer: a browser takes it for what it is called, and neither runs nor frames it.
GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

Peer = tuple[str, int]


class Connections:
    """All connections of the gateway, each with the timer that ends it if nothing comes."""

    def __init__(self, most: int, head_seconds: float) -> None:
        self.most = most
        self.head_seconds = head_seconds
        self._watches: dict[Peer, ConnectionWatch] = {}
        self._refusals = 0

    def __len__(self) -> int:
        return len(self._watches)

    def open(self, transport: asyncio.Transport) -> "ConnectionWatch | None":
        """None if there are too many already."""
        if len(self._watches) >= self.most:
            return None
        watch = ConnectionWatch(transport, self.head_seconds)
        self._watches[_peer(transport)] = watch
        return watch

    def close(self, transport: asyncio.Transport, watch: "ConnectionWatch") -> None:
        watch.stop()
        if self._watches.get(_peer(transport)) is watch:
            del self._watches[_peer(transport)]

    def refuse(self, transport: asyncio.Transport, problem: Problem) -> None:
        """Says why, then ends the connection."""
        if self._refusals >= MAX_REFUSALS:
            transport.abort()
            return
        self._refusals += 1
        transport.write(_refusal(problem))

        def end() -> None:
            self._refusals -= 1
            transport.abort()

        # Closed at once, what the client still sends would reset the connection under the answer.
        asyncio.get_running_loop().call_later(REFUSAL_SECONDS, end)

    def began(self, peer: Peer | None) -> None:
        watch = self._watches.get(peer) if peer else None
        if watch is not None:
            watch.request_began()

    def ended(self, peer: Peer | None) -> None:
        watch = self._watches.get(peer) if peer else None
        if watch is not None:
            watch.request_ended()


class ConnectionWatch:
    """The time and the bytes that one connection has until its next request is there."""

    def __init__(self, transport: asyncio.Transport, head_seconds: float) -> None:
        self._transport = transport
        self._head_seconds = head_seconds
        self._busy = False
        self._idle_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._arm(head_seconds)

    def received(self, size: int) -> bool:
        """False if too much has come without being a request."""
        if self._busy:
            return True
        if self._idle_bytes == 0:
            self._arm(self._head_seconds)
        self._idle_bytes += size
        return self._idle_bytes <= MAX_IDLE_BYTES

    def request_began(self) -> None:
        self._busy = True
        self.stop()

    def request_ended(self) -> None:
        self._busy = False
        self._idle_bytes = 0
        # Also while it is closing: a client that does not read its answer must not hold it open.
        self._arm(KEEP_ALIVE_SECONDS)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float) -> None:
        self.stop()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._transport.abort)


def _peer(transport: asyncio.BaseTransport) -> Peer:
    """As uvicorn names it in a request's scope."""
    name = transport.get_extra_info("peername")
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", id(transport))


def _refusal(problem: Problem) -> bytes:
    body = json.dumps(problem.body).encode()
    headers = (
        problem.headers
        | GUARDS
        | {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
    )
    head = [f"HTTP/1.1 {problem.status} Refused", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*head, "", ""]).encode() + body


def make_room_for(connections: int) -> int:
    """Raises the limit of open files as far as needed; how many connections there can be.

    UsageError if there can be none.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft == resource.RLIM_INFINITY:
        return connections
    if soft <= OTHER_FILES:
        raise UsageError(
            f"only {soft} open files are allowed, and a gateway needs {OTHER_FILES} before its "
            f"first connection; raise the limit (ulimit -n, LimitNOFILE) to {connections * 2} or so"
        )
    return min(connections, soft - OTHER_FILES)


def peer_of(scope: Any) -> Peer | None:
    return cast("Peer | None", scope.get("client"))


# One connection's HTTP: uvicorn's protocol, with a bound on all that is no body.
#
# uvicorn keeps every header, every trailer and every request that comes before its turn, however
# many there are. Here a head and its trailers are counted together, trailers are dropped, and one
# request may wait for its turn: a client that has the last byte of an answer may be faster than
# this side.

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
    _watch: ConnectionWatch | None = None
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
