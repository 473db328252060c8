"""Requests that are repeated until a server answers them, with growing pauses."""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from booksan_client.errors import (
    ClientError,
    Interrupted,
    NoSpace,
    Refused,
    RunGone,
    ServerError,
)
from booksan_client.servers import Servers
from booksan_client.wire import Broken, Reply, Request, Sink, Wire

#: Seconds without a success, and without a word that it will come, after which the servers are
#: given up.
PATIENCE = 300.0
#: Seconds that a server may have no room, or an error of its own, before a request is given up.
NO_SPACE_PATIENCE = 60.0
INTERNAL_PATIENCE = 30.0

#: Answers that another try may change.
_AGAIN = frozenset({408, 429, 500, 502, 503, 504, 507})
#: Of those, the ones in which the server itself, and not what lies behind it, is at fault.
_ILL = frozenset({500, 502, 504})

#: Codes with which a server that is well holds back: it is asked again for as long as it takes.
_HOLDS_BACK = frozenset({"queues_full", "busy"})

_FIRST_PAUSE = 0.1
_MOST_PAUSE = 10.0
#: Seconds between two looks at whether waiting still makes sense.
_LOOK = 0.1
#: Seconds that a request is in trouble before the user hears of it, and until the next time.
TELL_AFTER = 5.0
TELL_AGAIN = 60.0


@dataclass(frozen=True)
class Limits:
    """Seconds after which something is given up."""

    patience: float = PATIENCE
    no_space: float = NO_SPACE_PATIENCE
    internal: float = INTERNAL_PATIENCE
    most_pause: float = _MOST_PAUSE


class Trouble:
    """Tells why nothing moves, now and then, for all threads together."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._not_before = 0.0

    def about(self, cause: str) -> None:
        with self._lock:
            now = time.monotonic()
            if now < self._not_before:
                return
            self._not_before = now + TELL_AGAIN
        self._tell(f"waiting for a server ({cause})")


@dataclass
class _Tries:
    """What became of one request so far."""

    started: float
    #: Since when the answer is the same.
    same_since: float
    number: int = 0
    last: str | None = None
    cause: str = ""
    status: int = 0

    def pause(self, most: float) -> float:
        longest = min(most, _FIRST_PAUSE * 2.0 ** min(self.number - 1, 20))
        return longest * (0.5 + random.random() / 2)


class Caller:
    """Sends requests to any of the servers; raises a ClientError when it gives up.

    Any thread may use it. `while_waiting` is called, in the thread that made the caller only,
    while a request waits for its next try; it raises to end the waiting.
    """

    def __init__(
        self,
        servers: Servers,
        headers: Mapping[str, str],
        *,
        limits: Limits | None = None,
        while_waiting: Callable[[], object] = lambda: None,
        trouble: Trouble | None = None,
    ) -> None:
        self.servers = servers
        self.limits = limits or Limits()
        self.while_waiting = while_waiting
        self._trouble = trouble
        self._headers = dict(headers)
        self._wire = Wire()
        self._owner = threading.get_ident()
        self._stopped = threading.Event()
        #: The last success, or the last time that a server asked for patience.
        self._last_word = time.monotonic()

    def another(self) -> "Caller":
        """One for the same servers that can be closed alone."""
        return Caller(self.servers, self._headers, limits=self.limits, trouble=self._trouble)

    def stop(self) -> None:
        """Requests that are under way, or are waiting, end with Interrupted."""
        self._stopped.set()

    def close(self) -> None:
        self.stop()
        self._wire.close()

    def call(self, request: Request, sink: Callable[[], Sink] | None = None) -> Reply:
        """The first answer that is neither an error nor worth another try."""
        full = Request(
            request.method,
            request.path,
            {**self._headers, **request.headers},
            request.body,
            request.timeout,
        )
        now = time.monotonic()
        tries = _Tries(now, now)
        while True:
            reply = self._try(full, sink, tries)
            if reply is not None:
                return reply
            self._check_patience(tries)

    def _try(
        self, request: Request, sink: Callable[[], Sink] | None, tries: _Tries
    ) -> Reply | None:
        """One try at one server, and the pause after it if it was in vain."""
        server, wait = self.servers.choose(avoid=tries.last)
        if server is None:
            self._wait(wait)
            tries.cause = tries.cause or "no server is known yet"
            return None
        self._check_stopped()
        tries.last = server
        tries.number += 1
        try:
            reply = self._wire.send(server, request, sink)
        except Broken as error:
            self._check_stopped()
            self.servers.failed(server)
            tries.cause, tries.status = f"{server}: {error}", 0
            return None
        if reply.status in _AGAIN:
            self._put_off(server, reply, tries)
            return None
        self.servers.worked(server)
        self._last_word = time.monotonic()
        if reply.status >= 300:
            raise _error(reply)
        return reply

    def _put_off(self, server: str, reply: Reply, tries: _Tries) -> None:
        if tries.status != reply.status:
            tries.same_since = time.monotonic()
        code, message, _ = _message(reply)
        tries.cause, tries.status = f"{server}: {message}", reply.status
        if reply.status == 503 and code in _HOLDS_BACK and _retry_after(reply):
            self._last_word = time.monotonic()
        if reply.status in _ILL:
            self.servers.failed(server)
        else:
            self.servers.worked(server)
        pause = tries.pause(self.limits.most_pause)
        others = [url for url in self.servers.urls if url != server]
        if others and tries.number % (len(others) + 1):
            # Another server may do at once what this one cannot.
            return
        self._wait(max(pause, _retry_after(reply)))

    def _check_patience(self, tries: _Tries) -> None:
        now = time.monotonic()
        same = now - tries.same_since
        if self._trouble is not None and now - tries.started > TELL_AFTER:
            self._trouble.about(tries.cause)
        if tries.status == 507 and same > min(self.limits.no_space, self.limits.patience):
            raise NoSpace(
                f"no space left at the server ({tries.cause}); when there is room, the same "
                "command goes on where it was"
            )
        if tries.status == 500 and same > min(self.limits.internal, self.limits.patience):
            raise ServerError(f"the server has an error of its own ({tries.cause})")
        if now - max(tries.started, self._last_word) > self.limits.patience:
            raise ServerError(
                f"no server has done what was asked for {self.limits.patience:.0f} s "
                f"({tries.cause}); the same command goes on where it was"
            )

    def _wait(self, seconds: float) -> None:
        """Also notices that there is no use in waiting."""
        deadline = time.monotonic() + seconds
        while True:
            self._check_stopped()
            if threading.get_ident() == self._owner:
                self.while_waiting()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._stopped.wait(min(left, _LOOK))

    def _check_stopped(self) -> None:
        if self._stopped.is_set():
            raise Interrupted


def _retry_after(reply: Reply) -> float:
    """Seconds; dates, which our servers do not send, and nonsense count as nothing."""
    text = reply.headers.get("retry-after", "")
    return min(float(text), 120.0) if text.isdigit() else 0.0


def _message(reply: Reply) -> tuple[str, str, str]:
    """Code, message and `how` of an error; of a server that is not ours, its status."""
    try:
        error: dict[str, Any] = json.loads(reply.body)["error"]
        return str(error["code"]), str(error["message"]), str(error.get("how") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", f"answered with status {reply.status}", ""


def _error(reply: Reply) -> ClientError:
    code, message, how = _message(reply)
    if reply.status == 410 or code == "unknown_client":
        return RunGone(message, how)
    if reply.status == 401:
        message = f"{message}; a token is given by --token-file or BOOKSAN_TOKEN"
    return Refused(reply.status, code, message)
