"""What was hit, and whether it is back. A view in, decision out."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from booksan.chaos.kinds import WHOLE_HOSTS, Kind
from booksan.chaos.view import HostView, View
from booksan.cluster.processes import ProcessId

#: Whether the gateway with this URL has answered a question that was asked after this moment.
Healthy = Callable[[str, float], bool]


@dataclass
class Wound:
    kind: Kind
    name: str
    host: str | None
    processes: tuple[ProcessId, ...]
    #: Wall-clock and monotonic time of the strike.
    time: float
    at: float
    #: Monotonic time until which it is stopped; None for one that was killed.
    stopped_until: float | None = None
    #: Monotonic time from which it had to come back: of the strike, or of the end of the stop.
    since: float = field(init=False)
    #: It takes longer than the patience.
    late: bool = False
    #: Seconds until it was back, and as which process.
    took: float | None = None
    new_pid: int | None = None
    #: Monotonic time from which a new node takes messages.
    _ready: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.since = self.at

    @property
    def paused(self) -> bool:
        return self.stopped_until is not None

    @property
    def held(self) -> bool:
        """Stopped, and not continued yet."""
        return self.stopped_until is not None and self.since < self.stopped_until

    def continued(self, now: float) -> None:
        self.stopped_until = self.since = now

    def is_back(self, view: View, healthy: Healthy, others: Collection["Wound"]) -> bool:
        """`others`: what else is not back."""
        if self.held:
            return False
        if self.kind is Kind.CLIENT:
            return self._client_is_back(view)
        if self.kind is Kind.BROKER:
            return self._broker_is_back(view, healthy, others)
        host = view.host(self.host or "")
        if host is None:
            return False
        if self.kind in WHOLE_HOSTS:
            back = host.whole and self._is_new(host.supervisor)
            return back and (not host.has_gateway or healthy(host.gateway, self.since))
        return self._worker_is_back(host, healthy)

    def _worker_is_back(self, host: HostView, healthy: Healthy) -> bool:
        name = self.name.partition("@")[0]
        mine = [worker for worker in host.workers if worker.name == name and worker.works]
        back = any(self._is_new(worker.process) for worker in mine)
        return back and (self.kind is not Kind.GATEWAY or healthy(host.gateway, self.since))

    def _client_is_back(self, view: View) -> bool:
        found = [client.process for client in view.clients if client.id == self.name]
        # One that is forgotten was done or given up by the next command.
        return not found or any(self._is_new(process) for process in found)

    def _broker_is_back(self, view: View, healthy: Healthy, others: Collection["Wound"]) -> bool:
        if not self._is_new(view.broker):
            self._ready = None
            return False
        if self._ready is None:
            self._ready = view.at
        touched = {wound.host for wound in others}
        asked = [host for host in view.hosts if host.name not in touched and host.has_gateway]
        ready = self._ready
        return bool(asked) and all(healthy(host.gateway, ready) for host in asked)

    def _is_new(self, process: ProcessId | None) -> bool:
        """One that was only stopped may be the same, or have been replaced."""
        if process is None or (not self.paused and process in self.processes):
            return False
        self.new_pid = process.pid
        return True
