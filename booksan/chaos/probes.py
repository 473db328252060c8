"""Questions that may take seconds, asked beside the loop."""

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

#: Seconds between two questions of the same kind.
_AGAIN = 0.1
_THREADS = 4


@dataclass
class _Probe:
    asked: float
    future: "Future[Any]"


class Probes:
    """The last answer to each question, and when it was asked."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="probe")
        self._running: dict[Hashable, _Probe] = {}
        self._answers: dict[Hashable, tuple[float, Any]] = {}

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def ask(self, key: Hashable, question: Callable[[], Any], every: float = _AGAIN) -> None:
        """Ask, unless that is under way or was done just now."""
        now = time.monotonic()
        running = self._running.get(key)
        if running is not None:
            if not running.future.done():
                return
            self._answers[key] = (running.asked, running.future.result())
            del self._running[key]
        asked = running.asked if running is not None else self.asked(key)
        if asked is None or now >= asked + every:
            self._running[key] = _Probe(now, self._pool.submit(question))

    def asked(self, key: Hashable) -> float | None:
        """When the last answered question was asked."""
        found = self._answers.get(key)
        return found[0] if found else None

    def answer(self, key: Hashable) -> Any:
        found = self._answers.get(key)
        return found[1] if found else None
