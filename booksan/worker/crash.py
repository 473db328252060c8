"""Places where a worker can be made to die, so that tests can kill it at every step.

A crash point costs one call of an empty function. With `BOOKSAN_CRASH_DIR` set, a file in that
directory named `<stage>.<shard>@<point>@<n>` kills that worker with SIGKILL when it comes to the
point for the n-th time; the file is removed first, so the next life goes on.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

Crash = Callable[[str], None]

#: Every step of the loop, in the order in which a message meets them.
POINTS = (
    "received",
    "computed",
    "in-transaction",
    "committed",
    "partly-published",
    "published",
    "outbox-cleared",
    "acknowledged",
    "final-in-transaction",
    "final-committed",
    "final-published",
    "permit-in-transaction",
    "permit-committed",
    "buried",
    "deleted",
)


def never(point: str) -> None:
    """The crash function of real life."""


def from_environment(stage: str, shard: int) -> Crash:
    directory = os.environ.get("BOOKSAN_CRASH_DIR")
    if not directory:
        return never
    hits: Counter[str] = Counter()

    def crash(point: str) -> None:
        hits[point] += 1
        order = Path(directory) / f"{stage}.{shard}@{point}@{hits[point]}"
        if order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    return crash
