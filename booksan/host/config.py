"""What host.json asks for: the workers of a host, and when a dead one starts again."""

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from booksan.errors import BooksanError, UsageError
from booksan.host.status import write_json
from booksan.shards import ShardId
from booksan_common.backoff import Backoff

# When a dead worker starts again, and when the supervisor gives up. Time in, decision out.


@dataclass(frozen=True)
class RestartPolicy:
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
    first_delay: float = 0.02
    factor: float = 2.0
    #: Seconds. Bounds what a crash loop costs.
    max_delay: float = 1.0
    #: Seconds. Longer than a slow start on a busy machine, which proves nothing yet.
    healthy_after: float = 5.0
    #: More than the deaths that a worker needs to set a deadly message aside.
    max_restarts: int = 15
    #: Seconds. At least max_restarts * (healthy_after + max_delay), or a slow loop goes unseen.
    window: float = 120.0


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

_STAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class WorkerSpec:
    stage: str
    shard: int
    #: What runs in its process instead of the host's entry, for the gateway.
    entry: str | None = None

    @property
    def name(self) -> str:
        return str(ShardId(self.stage, self.shard))


@dataclass(frozen=True)
class Peer:
    """Another host: its number in the election, and where its supervisor hears by UDP."""

    id: int
    address: Address


class Revival(StrEnum):
    """How the leader brings a host back."""

    NONE = "none"
    PROCESS = "process"
    DOCKER = "docker"


@dataclass(frozen=True)
class ElectionConfig:
    """Who takes part in electing the leader, and how the leader brings hosts back."""

    name: str
    id: int
    listen: Address
    #: All other hosts by name.
    peers: Mapping[str, Peer]
    #: By name, the data directories of hosts on this machine, or the services of the Compose
    #: project whose containers they are; those without are not revived.
    revival: Mapping[str, str] = field(default_factory=dict)
    by: Revival = Revival.PROCESS
    #: The broker, if the leader brings it back too; its name is that of its service.
    broker: Address | None = None


@dataclass(frozen=True)
class HostConfig:
    workers: tuple[WorkerSpec, ...]
    #: `package.module:function`, called as function(data_dir, stage, shard) in the new process.
    entry: str = DEFAULT_ENTRY
    #: Seconds from SIGTERM until what still lives is killed.
    drain_timeout: float = 5.0
    #: Seconds without a sign of life after which a worker hangs. Generous: one text can take long.
    hang_timeout: float = 60.0
    #: Bytes of memory past which a worker is drained and started anew; 0 for no limit.
    memory_limit: float = 2 * 1024**3
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    #: None for a host that is alone.
    election: ElectionConfig | None = None
    #: Of the host, for its logs.
    name: str = ""


def write_config(data_dir: Path, config: HostConfig) -> None:
    """Write host.json, for a supervisor that starts later."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        write_json(data_dir / HOST_FILE, asdict(config))
    except OSError as error:
        raise BooksanError(f"{data_dir / HOST_FILE} cannot be written: {error.strerror}.") from None


def read_config(data_dir: Path) -> HostConfig:
    """Read and check host.json."""
    path = data_dir / HOST_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}.") from None
    try:
        return _config(found)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _config(found: object) -> HostConfig:
    if not isinstance(found, dict):
        raise UsageError('it must be an object with a list "workers".')
    return HostConfig(
        workers=_workers(found.get("workers")),
        entry=_entry('"entry"', found.get("entry", DEFAULT_ENTRY)),
        drain_timeout=_number(found, "drain_timeout", HostConfig.drain_timeout),
        hang_timeout=_number(found, "hang_timeout", HostConfig.hang_timeout),
        memory_limit=_number(found, "memory_limit", HostConfig.memory_limit),
        restart=_policy(found.get("restart", {})),
        election=_election(found.get("election")),
        name=str(found.get("name", "")),
    )


def _election(found: object) -> ElectionConfig | None:
    """Written by `booksan host`, which has checked the topology; only the form is checked here."""
    if found is None:
        return None
    try:
        assert isinstance(found, dict)
        peers = {
            str(name): Peer(int(one["id"]), _address(one["address"]))
            for name, one in found["peers"].items()
        }
        return ElectionConfig(
            str(found["name"]),
            int(found["id"]),
            _address(found["listen"]),
            peers,
            {str(name): str(path) for name, path in found["revival"].items()},
            Revival(found.get("by", Revival.PROCESS)),
            _address(found["broker"]) if found.get("broker") else None,
        )
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f'"election" is not as it should be: {error!r}.') from None


def _address(found: list[object]) -> Address:
    host, port = found
    return str(host), int(str(port))


def _workers(found: object) -> tuple[WorkerSpec, ...]:
    if not isinstance(found, list) or not found:
        raise UsageError('"workers" must be a list with at least one worker.')
    workers = tuple(_worker(number, item) for number, item in enumerate(found))
    seen: set[str] = set()
    for worker in workers:
        if worker.name in seen:
            raise UsageError(f"the worker {worker.name} is named twice.")
        seen.add(worker.name)
    return workers


def _worker(number: int, found: object) -> WorkerSpec:
    where = f'"workers"[{number}]'
    if not isinstance(found, dict):
        raise UsageError(f'{where} must be an object with "stage" and "shard".')
    stage, shard = found.get("stage"), found.get("shard")
    if not isinstance(stage, str) or not _STAGE.fullmatch(stage):
        raise UsageError(f'{where}: "stage" must be a name such as q3-join, not {stage!r}.')
    if not isinstance(shard, int) or isinstance(shard, bool) or shard < 0:
        raise UsageError(f'{where}: "shard" must be a number from 0 on, not {shard!r}.')
    entry = found.get("entry")
    return WorkerSpec(stage, shard, None if entry is None else _entry(f'{where}: "entry"', entry))


def _entry(where: str, found: object) -> str:
    if not isinstance(found, str) or not _ENTRY.fullmatch(found):
        raise UsageError(f"{where} must look like package.module:function, not {found!r}.")
    return found


def _policy(found: object) -> RestartPolicy:
    if not isinstance(found, Mapping):
        raise UsageError('"restart" must be an object.')
    known = [item.name for item in fields(RestartPolicy)]
    unknown = [str(name) for name in found if name not in known]
    if unknown:
        raise UsageError(f'"restart" has no {unknown[0]!r}; it has {", ".join(known)}.')
    values = {name: _checked(f"restart.{name}", value) for name, value in found.items()}
    limit = int(values.pop("max_restarts", RestartPolicy.max_restarts))
    return RestartPolicy(max_restarts=limit, **values)


def _number(found: Mapping[str, object], name: str, default: float) -> float:
    return _checked(name, found.get(name, default))


def _checked(name: str, found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e15:
        raise UsageError(f'"{name}" must be a number from 0 on, not {found!r}.')
    return float(found)
