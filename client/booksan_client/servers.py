"""Which of several servers a request goes to: any that works, in turn."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    failures: int = 0
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
        self._first_pause = first_pause
        self._most_pause = most_pause
        self._clock = clock
        self._chance = chance
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
            return Choice(None, self._first_pause)
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
            health.failures += 1
            pause = min(self._most_pause, self._first_pause * 2.0 ** min(health.failures - 1, 20))
            health.not_before = self._clock() + pause * (0.5 + self._chance() / 2)

    def _of(self, server: str) -> _Health:
        return self._health.setdefault(server, _Health())
