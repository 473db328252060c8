"""What host.json asks for: the workers of a host, and when a dead one starts again."""

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from booksan.errors import BooksanError, UsageError
from booksan.host.status import write_json
from booksan.shards import ShardId
from booksan_common.backoff import Backoff
from booksan_common.decoding import read_json
from booksan_common.files import NO_ROOM, make_directory

_Number = Annotated[float, Meta(ge=0, lt=1e15, description="a number from 0 on")]
_Whole = Annotated[int, Meta(ge=0, lt=10**15, description="a whole number from 0 on")]

# When a dead worker starts again, and when the supervisor gives up. Time in, decision out.


class RestartPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules for one worker.

    - A worker that lived for `healthy_after` seconds is healthy: its next start comes after
      `first_delay`, whatever was before.
    - A quick death comes earlier than that. After quick deaths in a row the starts of the worker
      are spaced by `first_delay`, times `factor` each time, up to `max_delay`. The space is
      measured from start to start, so a worker that did live for `max_delay` never waits.
    - A quick death that was the worker's own doing (any exit, a crash) is a failure. More than
      `max_restarts` failures within `window` seconds and the supervisor gives up. A worker killed
      from outside is no failure, however often: it says nothing about the worker.
    """

    #: Seconds. Small, since a killed worker should be at work again at once.
    first_delay: _Number = 0.02
    factor: _Number = 2.0
    #: Seconds. Bounds what a crash loop costs.
    max_delay: _Number = 1.0
    #: Seconds. Longer than a slow start on a busy machine, which proves nothing yet.
    healthy_after: _Number = 5.0
    #: More than the deaths that a worker needs to set a deadly message aside.
    max_restarts: _Whole = 15
    #: Seconds. At least max_restarts * (healthy_after + max_delay), or a slow loop goes unseen.
    window: _Number = 120.0


class RestartHistory:
    """The deaths of one worker so far."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._spacings = Backoff(policy.first_delay, policy.max_delay, policy.factor)
        self._failures: deque[float] = deque()

    def died(self, started: float, now: float, *, killed: bool) -> float | None:
        """Say when to start the worker again; None: give up.

        `killed`: by a signal from outside.
        """
        policy = self._policy
        if now - started >= policy.healthy_after:
            self._spacings.reset()
            return now + policy.first_delay
        if not killed and self._too_many_failures(now):
            return None
        return max(now + policy.first_delay, started + next(self._spacings))

    def _too_many_failures(self, now: float) -> bool:
        self._failures.append(now)
        while self._failures[0] <= now - self._policy.window:
            self._failures.popleft()
        return len(self._failures) > self._policy.max_restarts


# What host.json asks for: the workers of the host.

HOST_FILE = "host.json"
DEFAULT_ENTRY = "booksan.worker.main:run"

#: Host and port.
Address = tuple[str, int]

_Stage = Annotated[
    str,
    Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_-]*\Z", description="a name such as q3-join"),
]
_Entry = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z",
        description="like package.module:function",
    ),
]


class WorkerSpec(Struct, frozen=True):
    stage: _Stage
    shard: _Whole
    #: What runs in its process instead of the host's entry, for the gateway.
    entry: _Entry | None = None

    @property
    def name(self) -> str:
        return str(ShardId(self.stage, self.shard))


class Peer(Struct, frozen=True):
    """Another host: its number in the election, and where its supervisor hears by UDP."""

    id: int
    address: Address


class Revival(StrEnum):
    """How the leader brings a host back."""

    NONE = "none"
    PROCESS = "process"
    DOCKER = "docker"


class ElectionConfig(Struct, frozen=True):
    """Who takes part in electing the leader, and how the leader brings hosts back."""

    name: str
    id: int
    listen: Address
    #: All other hosts by name.
    peers: Mapping[str, Peer]
    #: By name, the data directories of hosts on this machine, or the services of the Compose
    #: project whose containers they are; those without are not revived.
    revival: Mapping[str, str] = {}
    by: Revival = Revival.PROCESS
    #: The broker, if the leader brings it back too; its name is that of its service.
    broker: Address | None = None


class HostConfig(Struct, frozen=True):
    workers: Annotated[
        tuple[WorkerSpec, ...],
        Meta(min_length=1, description="a list with at least one worker"),
    ]
    #: `package.module:function`, called as function(data_dir, stage, shard) in the new process.
    entry: _Entry = DEFAULT_ENTRY
    #: Seconds from SIGTERM until what still lives is killed.
    drain_timeout: _Number = 5.0
    #: Seconds without a sign of life after which a worker hangs. Generous: one text can take long.
    hang_timeout: _Number = 60.0
    #: Bytes of memory past which a worker is drained and started anew; 0 for no limit.
    memory_limit: _Number = 2 * 1024**3
    restart: RestartPolicy = RestartPolicy()
    #: None for a host that is alone.
    election: ElectionConfig | None = None
    #: Of the host, for its logs.
    name: str = ""


def write_config(data_dir: Path, config: HostConfig) -> None:
    """Write host.json, for a supervisor that starts later."""
    try:
        make_directory(data_dir)
        write_json(data_dir / HOST_FILE, config)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise BooksanError(f"{data_dir / HOST_FILE} cannot be written: {error.strerror}.") from None


def read_config(data_dir: Path) -> HostConfig:
    """Read and check host.json."""
    path = data_dir / HOST_FILE
    config = read_json(path, HostConfig)
    names = [worker.name for worker in config.workers]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{path}: workers: {name} is named twice")
    return config


# The limits of a host's gateway.


def _at_least(low: float) -> Meta:
    return Meta(ge=low, lt=1e12, description=f"a number from {low:g} on")


def _whole(low: int) -> Meta:
    return Meta(ge=low, lt=10**12, description=f"a whole number from {low} on")


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same in gateway.json and in a topology."""

    #: Seconds from the creation of a client to its hard end.
    expiry: Annotated[int, _whole(1)] = 7 * 24 * 3600
    #: Seconds without an upload after which an unfinished upload is given up; 0 for never.
    idle: Annotated[int, _whole(0)] = 24 * 3600
    #: Unfinished clients whose home is on this host.
    max_clients: Annotated[int, _whole(1)] = 64
    max_connections: Annotated[int, _whole(1)] = 1000
    #: Bytes of a batch, after decompression.
    max_batch_bytes: Annotated[int, _whole(1)] = 8 * 1024 * 1024
    #: Seconds in which the head of a request must have come.
    header_seconds: Annotated[float, _at_least(0.1)] = 10
    #: Seconds in which the body of a request must have come.
    body_seconds: Annotated[float, _at_least(0.1)] = 60
    #: Seconds that full queues may hold a batch back.
    room_seconds: Annotated[float, _at_least(0)] = 25
