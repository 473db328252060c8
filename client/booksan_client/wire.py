"""HTTP/1.1 over connections that are kept: one for each thread and server."""

import http.client
import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from booksan_common.errors import UsageError

#: Seconds to reach a server; one that is further away than that is of no use.
CONNECT_TIMEOUT = 10.0
#: Seconds without a byte of an answer. A gateway may hold a batch back for half a minute.
READ_TIMEOUT = 90.0
#: Bytes of a whole answer in memory: pages and reports are far smaller.
MAX_ANSWER = 64 * 1024 * 1024

_PIECE = 256 * 1024

#: A file with the certificate of an authority that servers' certificates are checked with.
AUTHORITY = "BOOKSAN_TLS_CA"

#: What goes wrong between two machines, and says nothing of the request itself.
NETWORK_ERRORS = (OSError, http.client.HTTPException)


class Broken(Exception):
    """The request got no whole answer; it may or may not have been carried out."""

    def __init__(self, message: str, *, closed: bool = False, away: bool = False) -> None:
        super().__init__(message)
        #: Nothing could be reached at the server's address.
        self.away = away
        #: The other side closed the connection without a word.
        self.closed = closed


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = READ_TIMEOUT


class Reply(NamedTuple):
    status: int
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


def connection_to(server: str, timeout: float) -> http.client.HTTPConnection:
    """Not connected yet; to an https:// address with TLS."""
    parts = urlsplit(server)
    assert parts.hostname is not None
    if parts.scheme != "https":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    return http.client.HTTPSConnection(
        parts.hostname, parts.port, timeout=timeout, context=_authorities()
    )


class Wire:
    """Sends requests; any thread may use it, each has its own connections."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.Lock()
        #: Connections that no request is using now.
        self._idle: set[http.client.HTTPConnection] = set()
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False

    def send(self, server: str, request: Request, sink: Callable[[], Sink] | None = None) -> Reply:
        """The server's answer. `sink` is asked for when the answer is good, and gets its body."""
        kept = self._kept().get(server)
        if kept is not None:
            try:
                return self._exchange(server, kept, request, sink)
            except Broken as error:
                # A server may close a connection that was idle; that says nothing about it.
                if not error.closed:
                    raise
        return self._exchange(server, self._connect(server), request, sink)

    def close(self) -> None:
        """Ends what is under way in any thread.

        A connection in use is shut, so that the thread that waits on it wakes up and closes it.
        """
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, set()
            for connection in self._busy:
                if connection.sock is not None:
                    with suppress(OSError):
                        socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
        for connection in idle:
            connection.close()

    def _kept(self) -> dict[str, http.client.HTTPConnection]:
        if not hasattr(self._local, "connections"):
            self._local.connections = {}
        connections: dict[str, http.client.HTTPConnection] = self._local.connections
        return connections

    def _connect(self, server: str) -> http.client.HTTPConnection:
        connection = connection_to(server, CONNECT_TIMEOUT)
        try:
            connection.connect()
        except NETWORK_ERRORS as error:
            connection.close()
            raise Broken(_words(error), away=not isinstance(error, ssl.SSLError)) from error
        # A connection that was shut must not open itself again.
        connection.auto_open = 0
        self._kept()[server] = connection
        return connection

    def _exchange(
        self,
        server: str,
        connection: http.client.HTTPConnection,
        request: Request,
        sink: Callable[[], Sink] | None,
    ) -> Reply:
        with self._lock:
            self._idle.discard(connection)
            self._busy.add(connection)
            closed = self._closed
        whole = False
        try:
            if closed:
                raise Broken("the connection was closed")
            answer = self._ask(server, connection, request)
            body = _read_into(answer, sink()) if sink and answer.status == 200 else _read(answer)
            whole = not answer.will_close
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, headers, body)
        finally:
            self._put_back(server, connection, whole)

    def _put_back(self, server: str, connection: http.client.HTTPConnection, whole: bool) -> None:
        """Only a connection whose last answer was read to its end can serve again."""
        with self._lock:
            self._busy.discard(connection)
            keep = whole and not self._closed
            if keep:
                self._idle.add(connection)
        if not keep:
            self._kept().pop(server, None)
            connection.close()

    def _ask(
        self, server: str, connection: http.client.HTTPConnection, request: Request
    ) -> http.client.HTTPResponse:
        try:
            if connection.sock is not None:
                connection.sock.settimeout(request.timeout)
            path = urlsplit(server).path + request.path
            try:
                connection.request(
                    request.method, path, body=request.body, headers=dict(request.headers)
                )
            except (BrokenPipeError, ConnectionResetError):
                # The server may have answered before it had read everything, and closed then.
                return connection.getresponse()
            return connection.getresponse()
        except NETWORK_ERRORS as error:
            # RemoteDisconnected is one of these, too.
            raise Broken(_words(error), closed=isinstance(error, ConnectionError)) from error


def _read(answer: http.client.HTTPResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    while piece := _next_piece(answer):
        parts.append(piece)
        size += len(piece)
        if size > MAX_ANSWER:
            raise Broken(f"an answer of more than {MAX_ANSWER} bytes")
    return b"".join(parts)


def _read_into(answer: http.client.HTTPResponse, sink: Sink) -> bytes:
    """A sink's own errors, such as a full disk, are none of the connection's."""
    while piece := _next_piece(answer):
        sink(piece)
    return b""


def _next_piece(answer: http.client.HTTPResponse) -> bytes:
    try:
        piece = answer.read(_PIECE)
    except NETWORK_ERRORS as error:
        raise Broken(_words(error)) from error
    if not piece and answer.length:
        # Of a read with a size, http.client tells a cut answer from a whole one only here.
        raise Broken(f"the answer ended {answer.length} bytes too early")
    return piece


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
