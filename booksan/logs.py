"""Python's logging in the form of events, for the processes of workers and gateways."""

import logging
import os
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from booksan.events import line

#: The variable with the least level of events that are told: warning, info or debug.
LEVEL = "BOOKSAN_LOG_LEVEL"
_LEVELS = {"warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}

#: Seconds within which the same words of the same process are not said again.
REPEAT_SECONDS = 60.0
#: Events that are remembered for that.
_REMEMBERED = 1000

_UNTIMED = nullcontext()


class Formatter(logging.Formatter):
    """What a library or a worker logs, in the same form."""

    def __init__(self, worker: str, *, words: bool = False) -> None:
        """`words`: for a person at a terminal."""
        super().__init__()
        self._worker = worker
        self._words = words

    def format(self, record: logging.LogRecord) -> str:
        event, client = record.getMessage(), getattr(record, "client", None)
        more = getattr(record, "more", {}) if record.levelno == logging.DEBUG else None
        if self._words and more is not None:
            told = {"client": client, **more} if client else more
            return f"{self._worker} {event}: " + ", ".join(f"{k} {v}" for k, v in told.items())
        trace = None
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1]))
        return line(event, worker=self._worker, client=client, trace=trace, more=more)[:-1]


class Once(logging.Filter):
    """Drops what was said just now; debug lines are to be followed one by one."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno == logging.DEBUG:
            return True
        now = time.monotonic()
        words = record.getMessage()
        if now - self._said.get(words, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[words] = now
        return True


def set_up(worker: str) -> None:
    """For the process of a worker: warnings and worse go to stderr, or more of ours if asked."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(worker, words=sys.stderr.isatty()))
    handler.addFilter(Once())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    asked = os.environ.get(LEVEL, "").lower() or "warning"
    ours = logging.getLogger("booksan")
    ours.setLevel(_LEVELS.get(asked, logging.WARNING))
    if asked not in _LEVELS:
        ours.warning("%s is %r, which is none of %s", LEVEL, asked, ", ".join(_LEVELS))


def of_client(client: str, **more: object) -> Mapping[str, Any]:
    """`extra` for a record about a client; `more` is for debug lines."""
    return {"client": client, "more": more}


class Steps:
    """How long the steps of a piece of work take, for a debug line; else no clock is asked."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._seconds: defaultdict[str, float] = defaultdict(float)
        #: How many messages of whom.
        self.of: Counter[str] = Counter()

    @property
    def on(self) -> bool:
        return self._log.isEnabledFor(logging.DEBUG)

    def time(self, name: str) -> AbstractContextManager[None]:
        return self._timed(name) if self.on else _UNTIMED

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] += time.monotonic() - begun

    def tell(self, event: str, client: str | None = None, **more: object) -> None:
        """One line, with what all steps took since the last one, in milliseconds."""
        if self.on:
            took = {f"{name}_ms": round(1e3 * took, 3) for name, took in self._seconds.items()}
            told = {**more, **({"of": dict(self.of)} if self.of else {}), **took}
            self._log.debug(event, extra={"client": client, "more": told})
            self._seconds.clear()
            self.of.clear()
