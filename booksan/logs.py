"""Python's logging in the form of events, for the processes of workers and gateways."""

import logging
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from booksan.events import line

#: Seconds within which the same words of the same process are not said again.
REPEAT_SECONDS = 60.0
#: Events that are remembered for that.
_REMEMBERED = 1000


class Formatter(logging.Formatter):
    """What a library or a worker logs, in the same form."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        trace = None
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1]))
        client = getattr(record, "client", None)
        return line(record.getMessage(), worker=self._worker, client=client, trace=trace)[:-1]


class Once(logging.Filter):
    """Drops what was said just now."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        words = record.getMessage()
        if now - self._said.get(words, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[words] = now
        return True


def set_up(worker: str) -> None:
    """For the process of a worker: warnings and worse go to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(worker))
    handler.addFilter(Once())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def of_client(client: str) -> Mapping[str, Any]:
    """`extra` for a record about a client."""
    return {"client": client}
