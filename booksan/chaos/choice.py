"""Whom a strike may hit. A view in, victims out."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from booksan.chaos.kinds import WHOLE_HOSTS, Kind
from booksan.chaos.view import HostView, View
from booksan.chaos.wounds import Wound
from booksan.cluster.processes import ProcessId

BROKER = "broker"


@dataclass(frozen=True)
class Victim:
    kind: Kind
    #: q3-join.0@alpha, alpha, broker, or the client's id.
    name: str
    #: The host that it is on, or is.
    host: str | None
    #: All that are hit, the most important one first.
    processes: tuple[ProcessId, ...]


def candidates(
    kind: Kind,
    view: View,
    wounds: Collection[Wound],
    *,
    mercy: bool = True,
    clients: Collection[str] = (),
) -> list[Victim]:
    """In an order that depends on names alone. Nobody who is not back yet is among them.

    `clients`: only these are hit; without them all are.
    """
    if kind is Kind.BROKER:
        found = _broker(view)
    elif kind is Kind.CLIENT:
        found = _clients(view, clients)
    elif kind in WHOLE_HOSTS:
        found = _hosts(kind, view, wounds, mercy=mercy)
    else:
        found = _workers(kind, view, wounds)
    wounded = {(wound.kind, wound.name) for wound in wounds}
    fresh = [victim for victim in found if (victim.kind, victim.name) not in wounded]
    return sorted(fresh, key=lambda victim: victim.name)


def _broker(view: View) -> Iterator[Victim]:
    if view.broker is not None:
        yield Victim(Kind.BROKER, BROKER, None, (view.broker,))


def _clients(view: View, only: Collection[str]) -> Iterator[Victim]:
    for client in view.clients:
        if client.process is not None and (not only or client.id in only):
            yield Victim(Kind.CLIENT, client.id, None, (client.process,))


def _workers(kind: Kind, view: View, wounds: Collection[Wound]) -> Iterator[Victim]:
    down = _down(wounds)
    for host in view.hosts:
        if host.name in down or host.supervisor is None:
            continue
        for worker in host.workers:
            wanted = worker.is_gateway == (kind is Kind.GATEWAY)
            if wanted and worker.process is not None:
                yield Victim(kind, f"{worker.name}@{host.name}", host.name, (worker.process,))


def _hosts(kind: Kind, view: View, wounds: Collection[Wound], *, mercy: bool) -> Iterator[Victim]:
    """Only whole ones: a host that lacks a worker is not back yet."""
    touched = {wound.host for wound in wounds}
    for host in view.hosts:
        if not host.whole or host.supervisor is None or host.name in touched:
            continue
        if kind is not Kind.HOST and host.leads != (kind is Kind.LEADER):
            continue
        if mercy and not _has_reviver(host, view, wounds):
            continue
        workers = tuple(one.process for one in host.workers if one.process is not None)
        rest = workers if kind is Kind.HOST else ()
        yield Victim(kind, host.name, host.name, (host.supervisor, *rest))


def _has_reviver(host: HostView, view: View, wounds: Collection[Wound]) -> bool:
    """Another supervisor lives and is not stopped: it can lead, and bring this host back."""
    down = _down(wounds)
    return any(
        other.name != host.name and other.name not in down and other.supervisor is not None
        for other in view.hosts
    )


def _down(wounds: Collection[Wound]) -> set[str | None]:
    return {wound.host for wound in wounds if wound.kind in WHOLE_HOSTS}
