"""Where hosts and clusters are kept, what cluster.json remembers, and which ports are free."""

import contextlib
import json
import os
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from booksan.cluster.processes import ProcessId, is_alive, supervisor_of
from booksan.errors import UsageError
from booksan.host.status import GENERATION_TIMEOUT, workers_alive
from booksan.topology.model import Address, Topology
from booksan_common.files import make_directory, state_home, try_lock, write_atomically

# Where hosts and clusters are kept, and files for their owner's eyes only.

_LOCK = "cluster.lock"


def hosts_directory(topology: str) -> Path:
    """The hosts of a topology that were started one by one, with what they share."""
    return state_home() / "hosts" / topology


def clusters_directory() -> Path:
    return state_home() / "clusters"


def make_private(directory: Path) -> None:
    try:
        make_directory(directory, 0o700)
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be made: {error.strerror}; name another one with --data-dir"
        ) from None


@contextlib.contextmanager
def locked(directory: Path, *, wait: bool = False) -> Iterator[None]:
    """One command at a time changes a cluster; `wait` for the other one instead of giving up."""
    lock = try_lock(directory / _LOCK, wait=wait)
    if lock is None:
        raise UsageError(
            f"another booksan is starting or stopping the cluster in {directory}; wait for it"
        )
    try:
        yield
    finally:
        os.close(lock)


# cluster.json: what `booksan cluster` started, and with which ports.

CLUSTER_FILE = "cluster.json"


@dataclass
class HostRecord:
    id: int
    #: UDP of the supervisor.
    address: str
    #: URL of the gateway.
    gateway: str
    data_dir: str
    process: ProcessId | None = None

    def supervisor(self) -> ProcessId | None:
        """The one that runs now: as started, or by the lock if another has taken its place."""
        holder = supervisor_of(Path(self.data_dir))
        if holder is not None:
            return holder
        return self.process if is_alive(self.process) else None


@dataclass
class BrokerRecord:
    directory: str
    port: int
    keeper: ProcessId | None = None


@dataclass
class ClusterRecord:
    name: str
    #: What the hosts agree on, for comparing.
    topology: dict[str, Any]
    #: The address of the queues without its password.
    queues: str
    #: The ports are not those of the topology's file.
    moved: bool
    hosts: dict[str, HostRecord]
    broker: BrokerRecord | None = None
    #: By host: the ports of the supervisor and of the gateway.
    ports: dict[str, tuple[int, int]] = field(default_factory=dict)


def write_record(directory: Path, record: ClusterRecord) -> None:
    write_atomically(directory / CLUSTER_FILE, json.dumps(asdict(record), indent=2).encode())


def read_record(directory: Path) -> ClusterRecord | None:
    """None if there is no cluster."""
    path = directory / CLUSTER_FILE
    try:
        found = json.loads(path.read_text("utf-8"))
        hosts = {name: HostRecord(**_process(one)) for name, one in found.pop("hosts").items()}
        broker = found.pop("broker")
        ports = {name: (one[0], one[1]) for name, one in found.pop("ports").items()}
        known = BrokerRecord(**_process(broker, "keeper")) if broker else None
        return ClusterRecord(**found, hosts=hosts, broker=known, ports=ports)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} cannot be used: {error}; remove the directory") from None


def _process(found: dict[str, Any], key: str = "process") -> dict[str, Any]:
    one = found[key]
    return {**found, key: ProcessId(*one) if one else None}


# Ports of a topology: given, from a base on, or any free ones.

#: By host: of the supervisor (UDP) and of the gateway (TCP).
Ports = dict[str, tuple[int, int]]

#: Below the range from which systems take ports for outgoing connections.
_RANGE = (20_000, 32_000)
_TRIES = 1_000
#: Seconds between two looks at a port that is to become free.
_LOOK_AGAIN = 0.05


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


def check_free(data_dir: Path, address: Address, kind: socket.SocketKind, otherwise: str) -> None:
    """Refuse an address that somebody else has, before anything is started.

    `otherwise`: what to do. What an earlier host in `data_dir` still has as it dies is waited for.
    """
    deadline = time.monotonic() + GENERATION_TIMEOUT
    while True:
        dying = workers_alive(data_dir)
        why = why_taken(address, kind)
        if why is None:
            return
        if not dying or time.monotonic() > deadline:
            raise UsageError(f"{address}: {why}{_by_whom(address, kind)}; {otherwise}")
        time.sleep(_LOOK_AGAIN)


def _by_whom(address: Address, kind: socket.SocketKind) -> str:
    """As far as this user may know."""
    with suppress(psutil.Error, OSError):
        for one in psutil.net_connections("tcp" if kind is socket.SOCK_STREAM else "udp"):
            # Those that only talk to the port from here have it at their other end.
            if one.laddr and one.laddr.port == address.port and not one.raddr and one.pid:
                return f" by process {one.pid} ({psutil.Process(one.pid).name()})"
    return ""


def _free_ports() -> Iterator[int]:
    """Different ones, free for both kinds; at random, since others may be choosing too."""
    tried = random.sample(range(*_RANGE), _TRIES)
    for port in tried:
        if all_free({"": (port, port)}):
            yield port
    raise UsageError("there are no free ports; use --port-base")
