"""What a worker works with: its shard, its disk, its queues, its settings, its crash points."""

import logging
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from booksan.clock import Clock
from booksan.logs import Steps
from booksan.shards import ShardId, queue_name
from booksan.state.shard import ShardStore
from booksan.transport.base import Transport

# Places where a worker can be made to die, so that tests can kill it at every step.
#
# A crash point costs one call of an empty function. With `BOOKSAN_CRASH_DIR` set, a file in that
# directory named `<stage>.<shard>@<point>@<n>` kills that worker with SIGKILL when it comes to
# the point for the n-th time; the file is removed first, so the next life goes on.

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


def crash_points(stage: str, shard: int) -> Crash:
    directory = os.environ.get("BOOKSAN_CRASH_DIR")
    if not directory:
        return never
    hits: Counter[str] = Counter()

    def crash(point: str) -> None:
        hits[point] += 1
        order = Path(directory) / f"{ShardId(stage, shard)}@{point}@{hits[point]}"
        if order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    return crash


# What can be tuned about a worker, with units and reasons.

STALLED_AFTER = "BOOKSAN_STALLED_AFTER"


@dataclass(frozen=True)
class Settings:
    #: Messages taken at once: enough to make one transaction and one sync serve many.
    max_messages: int = 32
    #: Bytes taken at once: bounds the memory of a worker.
    max_bytes: int = 16 * 1024 * 1024
    #: Messages published and confirmed together out of the outbox.
    publish_chunk: int = 64
    #: Rows in one piece of final output: about a megabyte, so that a transaction stays short.
    piece_rows: int = 10_000
    #: Times that a message may raise, handled alone, before it becomes a dead letter.
    max_attempts: int = 3
    #: Times in a row that a worker may die with one message in hand before it becomes one.
    max_deaths: int = 10
    #: Deaths that one by silence counts for: it took the worker a minute, not an instant.
    hang_weight: int = 4
    #: Databases of clients that are open at once, three files each, where the limit of open files
    #: allows it; as many as a host serves clients by default.
    max_sessions: int = 64
    #: Seconds for which work on a final output that may have killed the last life lets messages of
    #: others go first, while there are any.
    suspect_seconds: float = 10.0
    #: Seconds between two looks at expiries, stalls and old tombstones.
    tick: float = 30.0
    #: Seconds without news after which a home asks those whose output it lacks to send it again.
    stalled_after: float = 45.0
    #: SQLite's: FULL survives power failures, NORMAL and OFF survive only kills.
    synchronous: str = "FULL"

    @classmethod
    def from_environment(cls) -> "Settings":
        """With what the user, or a test, asks for by environment variables."""
        return cls(
            synchronous=os.environ.get("BOOKSAN_SYNCHRONOUS", cls.synchronous),
            tick=min(cls.tick, float(os.environ.get(STALLED_AFTER, cls.tick))),
            stalled_after=float(os.environ.get(STALLED_AFTER, cls.stalled_after)),
            publish_chunk=int(os.environ.get("BOOKSAN_PUBLISH_CHUNK", cls.publish_chunk)),
        )


# What a worker works with: the shard it is, its disk, its queues, its settings.


@dataclass(frozen=True)
class Shard:
    stage: str
    number: int
    root: Path
    transport: Transport
    store: ShardStore
    #: The cluster's, for what a home signs.
    secret: bytes = b""
    settings: Settings = field(default_factory=Settings)
    crash: Crash = never
    clock: Clock = field(default_factory=Clock)
    #: Of the worker's loop, for those who follow it by debug lines.
    steps: Steps = field(default_factory=lambda: Steps(logging.getLogger("booksan.worker")))

    @property
    def queue(self) -> str:
        return queue_name(self.stage, self.number)

    @property
    def sender(self) -> str:
        """Its name on what it sends."""
        return ShardId(self.stage, self.number).sender

    def now(self) -> float:
        """The wall clock's time, as it is believed."""
        return self.clock.now()

    def databases(self) -> list[Path]:
        """This shard's databases of all clients."""
        return sorted(self.root.glob(f"clients/*/{self.stage}-{self.number}.db"))
