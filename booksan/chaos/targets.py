"""Whom a strike may hit, what was hit, and whether it is back. A view in, decisions out."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from booksan.chaos.kinds import WHOLE_HOSTS, TargetKind
from booksan.chaos.view import HostView, View
from booksan.cluster.processes import ProcessId

#: Whether the gateway with this URL has answered a question that was asked after this moment.
Healthy = Callable[[str, float], bool]


@dataclass
class Strike:
    kind: TargetKind
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

    def is_back(self, view: View, healthy: Healthy, others: Collection["Strike"]) -> bool:
        """`others`: what else is not back."""
        if self.held:
            return False
        if self.kind is TargetKind.CLIENT:
            return self._client_is_back(view)
        if self.kind is TargetKind.BROKER:
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
        return back and (self.kind is not TargetKind.GATEWAY or healthy(host.gateway, self.since))

    def _client_is_back(self, view: View) -> bool:
        found = [client.process for client in view.clients if client.id == self.name]
        # One that is forgotten was done or given up by the next command.
        return not found or any(self._is_new(process) for process in found)

    def _broker_is_back(self, view: View, healthy: Healthy, others: Collection["Strike"]) -> bool:
        if not self._is_new(view.broker):
            self._ready = None
            return False
        if self._ready is None:
            self._ready = view.at
        touched = {strike.host for strike in others}
        asked = [host for host in view.hosts if host.name not in touched and host.has_gateway]
        ready = self._ready
        return bool(asked) and all(healthy(host.gateway, ready) for host in asked)

    def _is_new(self, process: ProcessId | None) -> bool:
        """One that was only stopped may be the same, or have been replaced."""
        if process is None or (not self.paused and process in self.processes):
            return False
        self.new_pid = process.pid
        return True


# Whom a strike may hit. A view in, victims out.

BROKER = "broker"


@dataclass(frozen=True)
class Victim:
    kind: TargetKind
    #: q3-join.0@alpha, alpha, broker, or the client's id.
    name: str
    #: The host that it is on, or is.
    host: str | None
    #: All that are hit, the most important one first.
    processes: tuple[ProcessId, ...]


def candidates(
    kind: TargetKind,
    view: View,
    strikes: Collection[Strike],
    *,
    mercy: bool = True,
    clients: Collection[str] = (),
) -> list[Victim]:
    """In an order that depends on names alone. Nobody who is not back yet is among them.

    `clients`: only these are hit; without them all are.
    """
    if kind is TargetKind.BROKER:
        found = _broker(view)
    elif kind is TargetKind.CLIENT:
        found = _clients(view, clients)
    elif kind in WHOLE_HOSTS:
        found = _hosts(kind, view, strikes, mercy=mercy)
    else:
        found = _workers(kind, view, strikes)
    wounded = {(strike.kind, strike.name) for strike in strikes}
    fresh = [victim for victim in found if (victim.kind, victim.name) not in wounded]
    return sorted(fresh, key=lambda victim: victim.name)


def _broker(view: View) -> Iterator[Victim]:
    if view.broker is not None:
        yield Victim(TargetKind.BROKER, BROKER, None, (view.broker,))


def _clients(view: View, only: Collection[str]) -> Iterator[Victim]:
    for client in view.clients:
        if client.process is not None and (not only or client.id in only):
            yield Victim(TargetKind.CLIENT, client.id, None, (client.process,))


def _workers(kind: TargetKind, view: View, strikes: Collection[Strike]) -> Iterator[Victim]:
    down = _down(strikes)
    for host in view.hosts:
        if host.name in down or host.supervisor is None:
            continue
        for worker in host.workers:
            wanted = worker.is_gateway == (kind is TargetKind.GATEWAY)
            if wanted and worker.process is not None:
                yield Victim(kind, f"{worker.name}@{host.name}", host.name, (worker.process,))


def _hosts(
    kind: TargetKind, view: View, strikes: Collection[Strike], *, mercy: bool
) -> Iterator[Victim]:
    """Only whole ones: a host that lacks a worker is not back yet."""
    touched = {strike.host for strike in strikes}
    for host in view.hosts:
        if not host.whole or host.supervisor is None or host.name in touched:
            continue
        if kind is not TargetKind.HOST and host.leads != (kind is TargetKind.LEADER):
            continue
        if mercy and not _has_reviver(host, view, strikes):
            continue
        workers = tuple(one.process for one in host.workers if one.process is not None)
        rest = workers if kind is TargetKind.HOST else ()
        yield Victim(kind, host.name, host.name, (host.supervisor, *rest))


def _has_reviver(host: HostView, view: View, strikes: Collection[Strike]) -> bool:
    """Another supervisor lives and is not stopped: it can lead, and bring this host back."""
    down = _down(strikes)
    return any(
        other.name != host.name and other.name not in down and other.supervisor is not None
        for other in view.hosts
    )


def _down(strikes: Collection[Strike]) -> set[str | None]:
    return {strike.host for strike in strikes if strike.kind in WHOLE_HOSTS}
