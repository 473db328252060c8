"""What workers tell their supervisor, so that it can tell people: that they are ready, and of runs.

The supervisor makes a pipe before it forks. A word is one line, written at once or not at all: one
that finds no room is lost, for no work ever waits for news.
"""

import json
import os
import select
from contextlib import suppress
from typing import Any

from booksan.spec import Spec

#: Characters of a reason: a line must be short enough for the kernel to write it in one piece.
_REASON = 500

#: What becomes of a run. Told before it is committed, so that it is not lost with a worker; the
#: supervisor says it once.
BEGINS = "begins"
DONE = "done"
FAILED = "failed"
HEALED = "healed"
GONE = "gone"


class News:
    """Shared by a supervisor, which reads, and its workers."""

    def __init__(self) -> None:
        self.fd, self.write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self.write_fd, False)
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """What came since the last time."""
        with suppress(BlockingIOError):
            self._rest += os.read(self.fd, 65536)
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines]


class _Own:
    """The pipe of this process, if it is a worker's."""

    fd: int | None = None
    worker = ""


def take(news: News, worker: str) -> None:
    """From now on this process is the worker of that name."""
    _Own.fd, _Own.worker = news.write_fd, worker


def tell(word: str, **more: object) -> None:
    """Does nothing in a process that has no supervisor."""
    if _Own.fd is None:
        return
    found = {"worker": _Own.worker, "word": word, **more}
    line = json.dumps(found, ensure_ascii=False).encode(errors="replace") + b"\n"
    if len(line) <= select.PIPE_BUF:
        # No room, or the supervisor is just gone, and this process soon will be.
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(_Own.fd, line)


def ready(url: str = "") -> None:
    """This worker is at its work; `url`: where its gateway is reached."""
    tell("ready", url=url)


def waits(reason: str) -> None:
    """This worker is not ready, for a reason that a person may do something about."""
    tell("waits", reason=reason[:_REASON])


def of_run(spec: Spec, what: str, *, rows: int | None = None, reason: str = "") -> None:
    """For the home of a client: what has become of its run."""
    run = {"client": spec.client, "dataset": spec.dataset, "generation": spec.generation}
    tell("run", what=what, **run, rows=rows, reason=reason[:_REASON])
