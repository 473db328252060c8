"""What a worker works with: the shard it is, its disk, its queues, its settings."""

from dataclasses import dataclass, field
from pathlib import Path

from booksan.clock import Clock
from booksan.stages.graph import queue_name
from booksan.state.shard import ShardStore
from booksan.transport.base import Transport
from booksan.worker.crash import Crash, never
from booksan.worker.settings import Settings


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

    @property
    def queue(self) -> str:
        return queue_name(self.stage, self.number)

    @property
    def sender(self) -> str:
        """Its name on what it sends."""
        return f"{self.stage}/{self.number}"

    def now(self) -> float:
        """The wall clock's time, as it is believed."""
        return self.clock.now()

    def databases(self) -> list[Path]:
        """This shard's databases of all clients."""
        return sorted(self.root.glob(f"clients/*/{self.stage}-{self.number}.db"))
