"""The cluster as it is now: which process is what. Only this module looks."""

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from booksan.chaos.clients import ClientProcess, find_clients
from booksan.chaos.locks import Locks
from booksan.cluster.broker import broker_status
from booksan.cluster.processes import ProcessId, identify, send, supervisor_of
from booksan.cluster.record import BrokerRecord, ClusterRecord, HostRecord, read_record
from booksan.cluster.status import cluster_status
from booksan.errors import UsageError
from booksan.supervisor.states import HostState, WorkerState

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
    has_broker: bool = False
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
            record.broker is not None,
            tuple(find_clients(locks)) if clients else (),
            now,
        )

    def hit(self, processes: Sequence[ProcessId], signum: signal.Signals) -> None:
        for process in processes:
            send(process, signum)

    def _read(self) -> ClusterRecord:
        record = read_record(self._directory)
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
    stage, _, shard = name.rpartition(".")
    has_shard = locks.holder(data_dir / "shards" / f"{stage}-{shard}.lock") == process
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
