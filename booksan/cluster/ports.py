"""Ports of a topology: given, from a base on, or any free ones."""

import random
import socket
from collections.abc import Iterator

from booksan.errors import UsageError
from booksan.topology.model import Address, Topology

#: By host: of the supervisor (UDP) and of the gateway (TCP).
Ports = dict[str, tuple[int, int]]

#: Below the range from which systems take ports for outgoing connections.
_RANGE = (20_000, 32_000)
_TRIES = 1_000


def ports_of(topology: Topology) -> Ports:
    return {host.name: (host.address.port, host.gateway.port) for host in topology.hosts.values()}


def ports_from(topology: Topology, base: int) -> tuple[Ports, int]:
    """Numbers in a row, and the one after them for a broker."""
    if base + 2 * len(topology.hosts) > 65535:
        raise UsageError(f"--port-base {base} leaves no room for the ports of {topology.name}")
    ports = {name: (base + 2 * n, base + 2 * n + 1) for n, name in enumerate(topology.hosts)}
    return ports, base + 2 * len(topology.hosts)


def any_ports(topology: Topology) -> tuple[Ports, int]:
    found = _free_ports()
    return {name: (next(found), next(found)) for name in topology.hosts}, next(found)


def all_free(ports: Ports) -> bool:
    return all(
        why_taken(Address("127.0.0.1", udp), socket.SOCK_DGRAM) is None
        and why_taken(Address("127.0.0.1", tcp), socket.SOCK_STREAM) is None
        for udp, tcp in ports.values()
    )


def why_taken(address: Address, kind: socket.SocketKind) -> str | None:
    """What keeps this machine from using the address; None if nothing does."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=kind)[0]
        with socket.socket(found[0], kind) as one:
            if kind is socket.SOCK_STREAM:
                # As servers do: connections that have just ended are no hindrance.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(found[4])
    except OSError as error:
        return error.strerror or str(error)
    return None


def _free_ports() -> Iterator[int]:
    """Different ones, free for both kinds; at random, since others may be choosing too."""
    tried = random.sample(range(*_RANGE), _TRIES)
    for port in tried:
        if all_free({"": (port, port)}):
            yield port
    raise UsageError("there are no free ports; use --port-base")
