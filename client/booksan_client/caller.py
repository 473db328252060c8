"""Requests that are repeated until one of the servers answers, with growing pauses."""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from booksan_client.wire import Broken, Reply, Request, Sink, Wire
from booksan_common.backoff import Backoff
from booksan_common.errors import (
    BooksanError,
    Interrupted,
    NoSpace,
    Refused,
    RunFailed,
    RunGone,
    ServerError,
)

# Which of several servers a request goes to: any that works, in turn.

#: Seconds that a server is left alone after its first failure; it doubles with each one more.
FIRST_PAUSE = 0.1
#: Seconds that it grows to.
MOST_PAUSE = 15.0


class Choice(NamedTuple):
    """A server, or none that may be asked before `wait` seconds are over."""

    server: str | None
    wait: float = 0.0


@dataclass
class _Health:
    pauses: Backoff
    #: On the monotonic clock.
    not_before: float = 0.0


class Servers:
    """Any gateway takes any request, so they take turns; one that fails is left alone for longer
    and longer, unless it is the only one left."""

    def __init__(
        self,
        urls: Sequence[str] | Callable[[], Sequence[str]],
        *,
        first_pause: float = FIRST_PAUSE,
        most_pause: float = MOST_PAUSE,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`urls` may be a function, which is asked each time: a server may move."""
        self._find: Callable[[], Sequence[str]] = urls if callable(urls) else lambda: urls
        self._pauses = partial(Backoff, first_pause, most_pause, chance=chance)
        self._clock = clock
        self._lock = threading.Lock()
        self._health: dict[str, _Health] = {}
        self._turn = 0

    @property
    def urls(self) -> list[str]:
        return list(self._find())

    def choose(self, avoid: str | None = None) -> Choice:
        """The next one in turn; `avoid` only if there is no other."""
        urls = self.urls
        if not urls:
            return Choice(None, self._pauses().coming)
        now = self._clock()
        with self._lock:
            ready = [url for url in urls if self._of(url).not_before <= now]
            if not ready:
                soonest = min(self._of(url).not_before for url in urls)
                return Choice(None, soonest - now)
            others = [url for url in ready if url != avoid] or ready
            self._turn += 1
            return Choice(others[self._turn % len(others)])

    def worked(self, server: str) -> None:
        with self._lock:
            self._health.pop(server, None)

    def failed(self, server: str) -> None:
        with self._lock:
            health = self._of(server)
            if health.not_before > self._clock():
                # Several requests that were on their way together are one failure.
                return
            health.not_before = self._clock() + next(health.pauses)

    def _of(self, server: str) -> _Health:
        return self._health.setdefault(server, _Health(self._pauses()))


# Requests that are repeated until a server answers them, with growing pauses.

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
#: The same while no server has ever answered: there may be none.
TELL_NONE_AFTER = 1.0
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

    def about(self, cause: str, advice: str = "") -> None:
        with self._lock:
            now = time.monotonic()
            if now < self._not_before:
                return
            self._not_before = now + TELL_AGAIN
        self._tell(f"waiting for a server ({cause})" + (f"; {advice}" if advice else ""))


@dataclass
class _Tries:
    """What became of one request so far."""

    pauses: Backoff
    started: float
    #: Since when the answer is the same.
    same_since: float
    number: int = 0
    #: Seconds after the last one.
    pause: float = 0.0
    last: str | None = None
    cause: str = ""
    status: int = 0
    #: The last server that was tried is not there at all.
    away: bool = False


class Caller:
    """Sends requests to any of the servers; raises a BooksanError when it gives up.

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
        advice: Callable[[Sequence[str]], str] = lambda _: "",
    ) -> None:
        """`advice`: what to do when none of these servers can be reached."""
        self.servers = servers
        self.limits = limits or Limits()
        self.while_waiting = while_waiting
        self._trouble = trouble
        self._advice = advice
        self._headers = dict(headers)
        self._wire = Wire()
        self._owner = threading.get_ident()
        self._stopped = threading.Event()
        #: The last success, or the last time that a server asked for patience.
        self._last_word = time.monotonic()
        #: Some server has answered, whatever it said.
        self._answered = False

    def another(self) -> "Caller":
        """One for the same servers that can be closed alone."""
        return Caller(
            self.servers,
            self._headers,
            limits=self.limits,
            trouble=self._trouble,
            advice=self._advice,
        )

    def stop(self) -> None:
        """Requests that are under way, or are waiting, end with Interrupted."""
        self._stopped.set()

    def close(self) -> None:
        self.stop()
        self._wire.close()

    def call(self, request: Request, sink: Callable[[], Sink] | None = None) -> Reply:
        """The first answer that is neither an error nor worth another try."""
        full = replace(request, headers={**self._headers, **request.headers})
        now, most = time.monotonic(), self.limits.most_pause
        pauses = Backoff(min(_FIRST_PAUSE, most), most, chance=random.random)
        tries = _Tries(pauses, now, now)
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
        tries.pause = next(tries.pauses)
        try:
            reply = self._wire.send(server, request, sink)
        except Broken as error:
            self._check_stopped()
            self.servers.failed(server)
            tries.cause, tries.status, tries.away = f"{server}: {error}", 0, error.away
            return None
        self._answered, tries.away = True, False
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
        others = [url for url in self.servers.urls if url != server]
        if others and tries.number % (len(others) + 1):
            # Another server may do at once what this one cannot.
            return
        self._wait(max(tries.pause, _retry_after(reply)))

    def _check_patience(self, tries: _Tries) -> None:
        now = time.monotonic()
        same = now - tries.same_since
        advice = self._advice(self.servers.urls) if tries.away else ""
        after = TELL_AFTER if self._answered else TELL_NONE_AFTER
        if self._trouble is not None and now - tries.started > after:
            self._trouble.about(tries.cause, advice)
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
                f"({tries.cause}); "
                f"{f'{advice}; then ' if advice else ''}the same command goes on where it was"
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


def _error(reply: Reply) -> BooksanError:
    code, message, how = _message(reply)
    if reply.status == 410 or code == "unknown_client":
        return RunGone(message, how)
    if code == "run_failed":
        return RunFailed(message)
    if reply.status == 401:
        message = f"{message}; a token is given by --token-file or BOOKSAN_TOKEN"
    return Refused(reply.status, code, message)
