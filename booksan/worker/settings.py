"""What can be tuned about a worker, with units and reasons."""

import os
from dataclasses import dataclass

WARM_UP = "BOOKSAN_WARM_UP"
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
    #: Whether an idle worker loads what its first message will need: right where all workers will
    #: have work soon. In a cluster most serve data sets that nobody may be using, and stay small.
    warm_up: bool = False

    @classmethod
    def from_environment(cls) -> "Settings":
        """With what the user, or a test, asks for by environment variables."""
        return cls(
            synchronous=os.environ.get("BOOKSAN_SYNCHRONOUS", cls.synchronous),
            tick=min(cls.tick, float(os.environ.get(STALLED_AFTER, cls.tick))),
            stalled_after=float(os.environ.get(STALLED_AFTER, cls.stalled_after)),
            publish_chunk=int(os.environ.get("BOOKSAN_PUBLISH_CHUNK", cls.publish_chunk)),
            warm_up=bool(os.environ.get(WARM_UP, "")),
        )
