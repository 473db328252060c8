"""HTTP to servers: urllib3's connections, with bounds and words of our own."""

import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPResponse, connection_from_url
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, IncompleteRead

from booksan_common.errors import UsageError

#: Seconds to reach a server; one that is further away than that is of no use.
CONNECT_TIMEOUT = 10.0
#: Seconds without a byte of an answer. A gateway may hold a batch back for half a minute.
READ_TIMEOUT = 90.0
#: Bytes of a whole answer in memory: pages and reports are far smaller.
MAX_ANSWER = 64 * 1024 * 1024
#: Connections to a server that are kept: more than there are threads that ask at once.
KEPT = 16

_PIECE = 256 * 1024

#: A file with the certificate of an authority that servers' certificates are checked with.
AUTHORITY = "BOOKSAN_TLS_CA"


class Broken(Exception):
    """The request got no whole answer; it may or may not have been carried out."""

    def __init__(self, message: str, *, away: bool = False) -> None:
        super().__init__(message)
        #: Nothing could be reached at the server's address.
        self.away = away


class _Idle(Broken):
    """A connection that had been kept was closed without a word."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = READ_TIMEOUT


class Reply(NamedTuple):
    status: int
    #: Whatever the case of their names.
    headers: Mapping[str, str]
    body: bytes


#: Takes a good answer piece by piece.
Sink = Callable[[bytes], object]


def _authorities() -> ssl.SSLContext:
    """Those of the system, or one of the user's own."""
    path = os.environ.get(AUTHORITY)
    try:
        return ssl.create_default_context(cafile=path or None)
    except OSError as error:
        raise UsageError(f"{path} ({AUTHORITY}) is no certificate in PEM: {error}") from None


def check_url(url: str) -> str:
    """A server's address, without a slash at the end."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or parts.username:
        raise UsageError(f"{url!r} is not a server's address: it looks like http://host:7300")
    return url.rstrip("/")


class _Connection(HTTPConnection):
    """Shows its sockets to the wire, and knows whether it has served before."""

    def __init__(self, *words: Any, show: Callable[[socket.socket], None], **more: Any) -> None:
        super().__init__(*words, **more)
        self._show = show
        self._served = False

    def connect(self) -> None:
        """Reaching a server takes no longer than it may; what is sent then has more time."""
        patience = self.timeout or READ_TIMEOUT
        self.timeout = min(patience, CONNECT_TIMEOUT)
        self._served = False
        try:
            super().connect()
        except (HTTPError, OSError) as error:
            raise Broken(_words(error), away=not isinstance(error, ssl.SSLError)) from _root(error)
        self.timeout = patience
        self.sock.settimeout(patience)
        self._show(self.sock)

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3 itself
        try:
            answer = super().getresponse()
        except ConnectionError as error:
            raise (_Idle if self._served else Broken)(_words(error)) from error
        self._served = True
        return answer


class _TlsConnection(_Connection, HTTPSConnection):
    """The same with TLS."""


class Wire:
    """Sends requests; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[str, HTTPConnectionPool] = {}
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._closed = False

    def send(self, server: str, request: Request, sink: Callable[[], Sink] | None = None) -> Reply:
        """The server's answer. `sink` is asked for when the answer is good, and gets its body."""
        while True:
            try:
                return self._exchange(server, request, sink)
            except _Idle:
                # That says nothing about the server; no kept connection is tried twice.
                continue
            except HTTPError as error:
                raise Broken(_words(error)) from _root(error)

    def close(self) -> None:
        """Ends what is under way in any thread.

        Sockets are shut, so that a thread that waits on one wakes up and closes it.
        """
        with self._lock:
            self._closed = True
            for sock in self._sockets:
                with suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
            for pool in self._pools.values():
                pool.close()

    def _exchange(self, server: str, request: Request, sink: Callable[[], Sink] | None) -> Reply:
        answer = self._pool(server).urlopen(
            request.method,
            urlsplit(server).path + request.path,
            request.body,
            dict(request.headers),
            retries=False,
            redirect=False,
            timeout=request.timeout,
            preload_content=False,
            decode_content=False,
        )
        with closing(answer):
            body = _read(answer, sink() if sink and answer.status == 200 else None)
        return Reply(answer.status, answer.headers, body)

    def _pool(self, server: str) -> HTTPConnectionPool:
        with self._lock:
            if server not in self._pools:
                tls = urlsplit(server).scheme == "https"
                more = {"ssl_context": _authorities()} if tls else {}
                pool = connection_from_url(server, maxsize=KEPT, show=self._watch, **more)
                pool.ConnectionCls = _TlsConnection if tls else _Connection
                self._pools[server] = pool
            return self._pools[server]

    def _watch(self, sock: socket.socket) -> None:
        """Also the last word on whether it may be used."""
        with self._lock:
            if self._closed:
                raise Broken("the connection was closed")
            self._sockets.add(sock)


def _read(answer: BaseHTTPResponse, sink: Sink | None) -> bytes:
    """Into the sink, whose own errors, such as a full disk, are none of the connection's."""
    body = bytearray()
    take = sink or body.extend
    while piece := answer.read(_PIECE):
        take(piece)
        if len(body) > MAX_ANSWER:
            raise Broken(f"an answer of more than {MAX_ANSWER} bytes")
    return bytes(body)


def _root(error: BaseException) -> BaseException:
    """What urllib3 has wrapped."""
    inner = error.__cause__ or error.__context__
    return _root(inner) if isinstance(error, HTTPError) and inner else error


def _words(error: BaseException) -> str:
    root = _root(error)
    if isinstance(root, TimeoutError):
        return "no answer in time"
    if isinstance(root, IncompleteRead):
        return f"the answer ended {root.expected} bytes too early"
    if isinstance(root, OSError) and root.strerror:
        return root.strerror
    return str(root) or type(root).__name__
