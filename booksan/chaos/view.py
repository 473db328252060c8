"""The cluster as it is now: which process is what, which client works, who holds a lock."""

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import psutil

from booksan.cluster.broker import broker_status
from booksan.cluster.paths import BrokerRecord, ClusterRecord, HostRecord
from booksan.cluster.processes import ProcessId, identify, send, supervisor_of
from booksan.cluster.status import cluster_status, find_record
from booksan.errors import UsageError
from booksan.host.status import HostState, WorkerState
from booksan.shards import ShardId
from booksan_client.connect import connect
from booksan_client.state import known_clients
from booksan_common.errors import BooksanError, RunGone
from booksan_common.files import OPERATOR_TOKEN, read_token

# Who holds a lock on a file, as the kernel tells.

_LOCKS = Path("/proc/locks")
#: 1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF; one that waits has an arrow before its kind.
_KIND, _PID, _PLACE = 1, 4, 5


class Locks:
    """All flocks of this machine at one moment; empty on systems that do not tell them."""

    def __init__(self, holders: Mapping[str, int] | None) -> None:
        self._holders = holders

    @classmethod
    def now(cls) -> "Locks":
        try:
            lines = [line.split() for line in _LOCKS.read_text().splitlines()]
        except OSError:
            return cls(None)
        return cls({words[_PLACE]: int(words[_PID]) for words in lines if words[_KIND] == "FLOCK"})

    @property
    def told(self) -> bool:
        return self._holders is not None

    def holder(self, path: Path) -> ProcessId | None:
        """The process that has locked the file."""
        try:
            found = path.stat()
        except OSError:
            return None
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        pid = (self._holders or {}).get(place)
        return identify(pid) if pid else None


# This user's clients: which process works on one, and whether its run has ended.
#
# A client is found by the lock in its directory, never by the name of a program.

_CLIENT_LOCK = "client.lock"
#: Seconds for one question about a run, asked again later if nobody answers.
_ASK_SECONDS = 2.0


@dataclass(frozen=True)
class ClientProcess:
    id: str
    #: None while nobody works on it.
    process: ProcessId | None


def find_clients(locks: Locks) -> Iterator[ClientProcess]:
    """All that are known in the user's state directory."""
    for path, state in known_clients():
        yield ClientProcess(state.id, locks.holder(path / _CLIENT_LOCK))


class ClientVerdict(Enum):
    """What the cluster says of a client."""

    GOING_ON = "going on"
    ENDED = "ended"
    UNKNOWN = "unknown"


def ask_cluster(id: str, gateways: list[str], token_file: Path | None) -> ClientVerdict | None:
    """None when nobody answers."""
    try:
        token = read_token(token_file, OPERATOR_TOKEN)
        with closing(connect(gateways, token, _no_look, _ASK_SECONDS)) as api:
            status = api.client(id, None).status()
    except RunGone as error:
        return ClientVerdict.ENDED if error.how else ClientVerdict.UNKNOWN
    except BooksanError:
        return None
    return (
        ClientVerdict.ENDED if status.done or status.failed is not None else ClientVerdict.GOING_ON
    )


def _no_look() -> None:
    """Nothing interrupts such a short question."""


class ClientEnd:
    """When a client is done or gone: nobody works on it, and the cluster says so too."""

    def __init__(self, id: str, patience: float) -> None:
        self.id = id
        #: Seconds that a client which was never seen may take to begin.
        self._patience = patience
        self._seen = False

    def is_at_work(self, clients: Iterable[ClientProcess]) -> bool:
        found = any(one.id == self.id and one.process is not None for one in clients)
        self._seen = self._seen or found
        return found

    def reached(self, word: ClientVerdict | None, waited: float) -> bool:
        """For one that nobody works on. Before it begins the cluster does not know it either."""
        self._seen = self._seen or word in (ClientVerdict.GOING_ON, ClientVerdict.ENDED)
        if word is ClientVerdict.UNKNOWN:
            return self._seen or waited > self._patience
        return word is ClientVerdict.ENDED


# The cluster as it is now: which process is what. Only this module looks.

_GATEWAY = "gateway."


@dataclass(frozen=True)
class WorkerView:
    name: str
    #: None while it is not running.
    process: ProcessId | None
    #: It has come so far that it holds its shard; a gateway is asked instead.
    works: bool = True

    @property
    def is_gateway(self) -> bool:
        return self.name.startswith(_GATEWAY)


@dataclass(frozen=True)
class HostView:
    name: str
    state: str
    #: None while it is dead.
    supervisor: ProcessId | None
    leads: bool
    gateway: str
    workers: tuple[WorkerView, ...] = ()

    @property
    def whole(self) -> bool:
        """Its supervisor runs, and all of its workers are at work."""
        if self.supervisor is None or self.state != HostState.RUNNING or not self.workers:
            return False
        return all(worker.process is not None and worker.works for worker in self.workers)

    @property
    def has_gateway(self) -> bool:
        """One that can be asked: of a container, one that is published."""
        return bool(self.gateway) and any(worker.is_gateway for worker in self.workers)


@dataclass(frozen=True)
class View:
    hosts: tuple[HostView, ...]
    #: The RabbitMQ node, once its keeper says that it is ready.
    broker: ProcessId | None = None
    clients: tuple[ClientProcess, ...] = ()
    #: Monotonic time of the look.
    at: float = 0.0

    @property
    def stopped(self) -> bool:
        """Somebody has stopped the cluster in order: there is nothing to hit any more."""
        return all(host.state == HostState.STOPPED for host in self.hosts)

    def host(self, name: str) -> HostView | None:
        return next((host for host in self.hosts if host.name == name), None)


class Looker:
    """Looks at one cluster on this machine again and again."""

    #: Seconds between two looks: while something is to come back, and otherwise.
    pace = (0.05, 0.25)

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.record = self._read()

    def look(self, *, clients: bool = False) -> View:
        record, now = self.record, time.monotonic()
        found = cluster_status(self._directory, record)
        locks = Locks.now()
        hosts = tuple(
            _host(record.hosts[host["name"]], host, locks, leads=host["name"] == found["leader"])
            for host in found["hosts"]
        )
        keeper = (found["broker"] or {}).get("keeper")
        broker = _broker(record.broker, keeper) if record.broker and keeper else None
        return View(
            hosts,
            broker,
            tuple(find_clients(locks)) if clients else (),
            now,
        )

    def hit(self, processes: Sequence[ProcessId], signum: signal.Signals) -> None:
        for process in processes:
            send(process, signum)

    def _read(self) -> ClusterRecord:
        record = find_record(self._directory)
        if record is None:
            raise UsageError(
                f"no cluster in {self._directory}; start one with `booksan cluster up`, or say "
                "which one is meant"
            )
        return record


def _host(record: HostRecord, found: dict[str, Any], locks: Locks, *, leads: bool) -> HostView:
    data_dir = Path(record.data_dir)
    supervisor = supervisor_of(data_dir)
    # Between the report and this look it may have died and come back as another.
    mine = supervisor if supervisor and supervisor.pid == found["pid"] else None
    workers = tuple(_worker(data_dir, one, mine, locks) for one in found["workers"])
    name, state = str(found["name"]), str(found["state"])
    return HostView(name, state, mine, leads and mine is not None, record.gateway, workers)


def _worker(
    data_dir: Path, found: dict[str, Any], supervisor: ProcessId | None, locks: Locks
) -> WorkerView:
    name, pid = str(found["name"]), found["pid"]
    if supervisor is None or pid is None or found["state"] != WorkerState.RUNNING:
        return WorkerView(name, None, works=False)
    process = identify(pid)
    # A number alone may be somebody else's by now.
    if process is None or _parent(pid) != supervisor.pid:
        return WorkerView(name, None, works=False)
    lock = f"{ShardId.parse(name).file_name}.lock"
    has_shard = locks.holder(data_dir / "shards" / lock) == process
    return WorkerView(name, process, has_shard or name.startswith(_GATEWAY) or not locks.told)


def _broker(record: BrokerRecord, keeper: int) -> ProcessId | None:
    found = broker_status(record)
    pid = found.get("pid")
    if not found.get("ready") or found.get("keeper") != keeper or not isinstance(pid, int):
        return None
    process, above = identify(pid), _parent(pid)
    # The keeper's own child, or a child of the start script that waits for it.
    ours = above is not None and keeper in (above, _parent(above))
    return process if ours else None


def _parent(pid: int) -> int | None:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None
