"""A cluster in containers: as it is now, and how its parts are hit.

A host is its container, which dies and is stopped as a whole; the same is true of the broker. A
worker is a process in it, and is hit from inside.
"""

import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from booksan.chaos.view import HostView, Locks, View, WorkerView, find_clients
from booksan.cluster.containers import (
    RUNNING,
    Container,
    EngineError,
    HostInside,
    Inside,
    docker,
    look_inside,
)
from booksan.cluster.processes import ProcessId, send
from booksan.errors import UsageError
from booksan.host.status import WorkerState, WorkerStatus
from booksan.shards import ShardId

#: What the engine does in place of a signal.
_ACTS = {signal.SIGKILL: "kill", signal.SIGSTOP: "pause", signal.SIGCONT: "unpause"}
#: Said by RabbitMQ when it takes connections.
_READY = "startup complete"
#: Only a child of the supervisor: a number alone may be somebody else's by now.
_SEND = 'grep -q "^PPid:[[:space:]]*1$" "/proc/$0/status" && kill -"$1" "$0"'


class ContainerLooker:
    """Looks at one Compose project again and again."""

    #: Seconds between two looks: each takes the engine some work.
    pace = (0.5, 1.0)

    def __init__(self, project: str) -> None:
        self._project = project
        #: The containers of processes that were seen: their own, or those that they are in.
        self._containers: dict[ProcessId, str] = {}
        self._workers: dict[ProcessId, str] = {}
        #: The last life of the broker that takes messages.
        self._ready: str | None = None
        if not look_inside(project).hosts:
            raise UsageError(
                f"there is no Compose project {project} with hosts; `docker-compose ls` or "
                "`docker ps` tell the names"
            )

    def look(self, *, clients: bool = False) -> View:
        now, found = time.monotonic(), look_inside(self._project)
        leader = found.leader["leader"]
        return View(
            tuple(self._host(host, leads=host.name == leader) for host in found.hosts),
            self._broker(found),
            tuple(find_clients(Locks.now())) if clients else (),
            now,
        )

    def hit(self, processes: Sequence[ProcessId], signum: signal.Signals) -> None:
        """With a container goes all that is in it."""
        first = processes[0]
        with suppress(EngineError):
            # What is gone needs no signal.
            if first in self._containers:
                docker(_ACTS[signum], self._containers[first])
            elif first in self._workers:
                words = (str(first.pid), str(int(signum)))
                docker("exec", self._workers[first], "sh", "-c", _SEND, *words)
            else:
                # A client, which is none of the containers.
                send(first, signum)

    def _host(self, host: HostInside, *, leads: bool) -> HostView:
        supervisor = self._known(host.container)
        report = host.report if supervisor is not None else None
        workers = tuple(self._worker(host, one) for one in report.workers) if report else ()
        gateway = host.container.published
        return HostView(host.name, host.state, supervisor, leads, gateway, workers)

    def _worker(self, host: HostInside, worker: WorkerStatus) -> WorkerView:
        if worker.pid is None or worker.state is not WorkerState.RUNNING:
            return WorkerView(worker.name, None, works=False)
        process = ProcessId(worker.pid, f"{host.container.life}/{worker.since}")
        self._workers[process] = host.container.id
        view = WorkerView(worker.name, process)
        has_shard = host.holders.get(ShardId.parse(worker.name).file_name) == worker.pid
        return WorkerView(worker.name, process, has_shard or view.is_gateway)

    def _broker(self, found: Inside) -> ProcessId | None:
        """Once it says that it is ready: gateways may not have missed yet one that was killed."""
        broker = found.broker
        process = self._known(broker) if broker is not None else None
        if broker is None or process is None:
            return None
        if broker.life != self._ready and broker.has_said(_READY):
            self._ready = broker.life
        return process if broker.life == self._ready else None

    def _known(self, container: Container) -> ProcessId | None:
        if container.state != RUNNING or container.pid is None:
            return None
        process = ProcessId(container.pid, container.life)
        self._containers[process] = container.id
        return process
