"""What one connection, and all of them together, may take: numbers and times.

uvicorn has no time limit for the head of a request, so the protocol tells what arrives, and the
application when a request begins and ends.
"""

import asyncio
import json
import resource
from typing import Any, cast

from booksan.errors import UsageError
from booksan.gateway.errors import Problem

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
        self._watches: dict[Peer, Watch] = {}
        self._refusals = 0

    def __len__(self) -> int:
        return len(self._watches)

    def open(self, transport: asyncio.Transport) -> "Watch | None":
        """None if there are too many already."""
        if len(self._watches) >= self.most:
            return None
        watch = Watch(transport, self.head_seconds)
        self._watches[_peer(transport)] = watch
        return watch

    def close(self, transport: asyncio.Transport, watch: "Watch") -> None:
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


class Watch:
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
