"""A data directory made ready: what the supervisor, the workers and the gateway find there."""

import os
import socket
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from booksan import tickets
from booksan.cluster.credentials import (
    SECRET,
    SECRET_ALSO,
    SECRET_ALSO_FILE,
    SECRET_FILE,
    TOKENS,
    read_token,
    spool_directory,
)
from booksan.cluster.paths import check_free, make_private
from booksan.cluster.processes import supervisor_of
from booksan.cluster.registry import election_of, gateways_of
from booksan.errors import UsageError
from booksan.gateway.config import ADDRESS_FILE, GatewayConfig, write_gateway_config
from booksan.host.config import ElectionConfig, HostConfig, Peer, Revival, WorkerSpec, write_config
from booksan.host.handle import with_package
from booksan.host.status import STATUS_FILE
from booksan.membership.names import is_numeric
from booksan.membership.revive import STOPPED_FILE
from booksan.shards import ShardId
from booksan.state.readers import Unfinished, unfinished_clients
from booksan.topology.model import Address, HostPlan, Member, Topology, as_it_runs
from booksan.transport import QUEUES_VARIABLE, check_address, masked
from booksan.transport.rabbitmq_address import EXAMPLE, is_loopback, parse_broker_address
from booksan.transport.spool_consumer import queue_files
from booksan_common.files import OPERATOR_TOKEN, TOKEN, is_locked, write_private

# Versions of data sets: runs are finished by the one that they were begun with.


def check_versions(data_dir: Path, unfinished: Sequence[Unfinished]) -> None:
    """Refuses before a worker would fail runs of another version, from which nothing heals them.

    What is computed is only kept and read, so it needs no data set.
    """
    begun: dict[tuple[str, int], set[str]] = {}
    for one in unfinished:
        if one.spec is not None and not one.computed:
            begun.setdefault((one.spec.dataset, one.spec.version), set()).add(one.client)
    for (dataset, version), clients in sorted(begun.items()):
        lack = _what_is_lacking(dataset, version)
        if lack is not None:
            raise UsageError(
                f"{data_dir} has unfinished clients ({some(sorted(clients))}) that were begun with "
                f"version {version} of {dataset}, and {lack} until they are done or cancelled, or "
                "name another --data-dir"
            )


def _what_is_lacking(dataset: str, version: int) -> str | None:
    # Loads polars, which a host without such clients does not need to wait for.
    from booksan.datasets import dataset_named

    try:
        known = dataset_named(dataset).version
    except UsageError as error:
        return f"it cannot be used here ({error}); start the host with the package that brings it"
    if known == version:
        return None
    return f"this booksan has version {known}; start the host with the booksan that had it"


def some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


# A data directory made ready: what the supervisor, the workers and the gateway read there.

GATEWAY = WorkerSpec("gateway", 0, entry="booksan.gateway.main:run")

#: Where the queues are, without the password.
QUEUES_FILE = "queues-address"

#: Seconds that queues are given to become free: killed workers need a moment to be gone.
QUEUE_PATIENCE = 3.0

#: One worker uses one thread, and so does the gateway.
_ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class HostSetup:
    topology: Topology
    name: str
    shards: tuple[ShardId, ...]
    data_dir: Path
    #: Where the gateway listens; None for a host without one.
    listen: Address | None
    secret: bytes
    #: The address, with credentials if there are any.
    queues: str
    #: Data directories of the other hosts, by name, if this one can start them again.
    peers: Mapping[str, Path] = field(default_factory=dict)
    #: How the others are brought back, if this one leads.
    revival: Revival = Revival.PROCESS
    #: A secret that is accepted beside the other, which signs.
    also: bytes | None = None
    #: The hosts that were started on this machine, this one among them, if they find each other
    #: there; None for hosts that know each other by the topology alone.
    members: Mapping[str, Member] | None = None
    #: What to do if a port is taken.
    other_ports: str = "stop that, or choose another port for the gateway with --port"

    def __repr__(self) -> str:
        return f"HostSetup({self.name!r}, {self.data_dir})"


def prepare(setup: HostSetup) -> None:
    """Check that the host can work here, then write its files."""
    check_address(setup.queues)
    _check_broker_user(setup.queues)
    _check_directory(setup.data_dir)
    make_private(setup.data_dir)
    check_unused(setup.data_dir)
    unfinished = unfinished_clients(setup.data_dir)
    _check_shards(setup, unfinished)
    check_versions(setup.data_dir, unfinished)
    _check_secret(setup, unfinished)
    _check_same_queues(setup, unfinished)
    _check_queues(setup)
    write_files(setup)


def write_files(setup: HostSetup) -> None:
    """All that the supervisor, the workers and the gateway of a host read when they start."""
    _write_secrets(setup)
    write_private(setup.data_dir / QUEUES_FILE, f"{masked(setup.queues)}\n".encode())
    workers = [WorkerSpec(shard.stage, shard.shard) for shard in setup.shards]
    if setup.listen is not None:
        _write_gateway(setup, setup.listen)
        # It takes the longest to load, so it goes first.
        workers.insert(0, GATEWAY)
    # What tells of an earlier life: that it ended for good would keep this one from being revived,
    # and another program may have its port by now.
    for name in (STATUS_FILE, STOPPED_FILE, ADDRESS_FILE):
        (setup.data_dir / name).unlink(missing_ok=True)
    write_config(
        setup.data_dir, HostConfig(tuple(workers), election=_election(setup), name=setup.name)
    )


def _election(setup: HostSetup) -> ElectionConfig | None:
    """A host that is alone elects nobody."""
    if setup.members is not None:
        found = election_of(setup.topology, setup.members, setup.name)
        return found if found.peers else None
    topology = setup.topology
    plan = topology.hosts.get(setup.name)
    others = [host for host in topology.hosts.values() if host.name != setup.name]
    if plan is None or not others:
        return None
    return ElectionConfig(
        plan.name,
        plan.id,
        (plan.address.host, plan.address.port),
        {host.name: Peer(host.id, (host.address.host, host.address.port)) for host in others},
        _revivable(setup, others),
        setup.revival,
        _broker(setup),
    )


def _broker(setup: HostSetup) -> tuple[str, int] | None:
    """For a leader that can start containers: a broker in one is a service of its own name."""
    if setup.revival is not Revival.DOCKER or spool_directory(setup.queues) is not None:
        return None
    address = parse_broker_address(setup.queues)
    return address.host, address.port


def _revivable(setup: HostSetup, others: list[HostPlan]) -> dict[str, str]:
    if setup.revival is Revival.DOCKER:
        # A host in a container is a service of its own name.
        return {host.name: host.name for host in others}
    return {name: str(data_dir) for name, data_dir in setup.peers.items()}


def host_environment(env: Mapping[str, str], queues: str) -> dict[str, str]:
    """What a supervisor and its children see: secrets read from files, and how to find booksan."""
    tokens = {name: token for name in TOKENS if (token := read_token(env, name))}
    files = {f"{TOKEN}_FILE", f"{OPERATOR_TOKEN}_FILE"}
    files |= {SECRET, SECRET_FILE, SECRET_ALSO, SECRET_ALSO_FILE}
    rest = {name: value for name, value in env.items() if name not in files}
    return with_package({**rest, **_ONE_THREAD, **tokens, QUEUES_VARIABLE: queues})


def _check_broker_user(queues: str) -> None:
    """Everybody knows RabbitMQ's first user; RabbitMQ itself lets it in from its own machine only.

    Whoever can write to the queues can change answers.
    """
    if spool_directory(queues) is not None:
        return
    broker = parse_broker_address(queues)
    if (broker.user, broker.password) == ("guest", "guest") and not is_loopback(broker.host):
        raise UsageError(
            f"the broker {broker} is on another machine, and guest with the password guest is no "
            f"user for that; make one, and name it in {QUEUES_VARIABLE}: {EXAMPLE}"
        )


def _check_directory(data_dir: Path) -> None:
    """A directory of somebody else is left as it is."""
    if not data_dir.exists():
        return
    if not data_dir.is_dir():
        raise UsageError(f"{data_dir} is not a directory; name another one with --data-dir")
    _check_owner(data_dir)
    names = {entry.name for entry in data_dir.iterdir() if not entry.name.startswith(".")}
    if "run.json" in names:
        raise UsageError(f"{data_dir} belongs to a `booksan run`; name another with --data-dir")
    # A volume has a lost+found from the beginning.
    if names - {"lost+found"} and not names & {"host.json", "secret"}:
        raise UsageError(
            f"{data_dir} is not empty and not a data directory of booksan; name an empty one "
            "with --data-dir"
        )


def _check_owner(data_dir: Path) -> None:
    """Secrets and state are only as safe as the directory that they are in."""
    found = data_dir.stat()
    if found.st_uid != os.geteuid():
        raise UsageError(
            f"{data_dir} belongs to another user; run as that one, or name another directory with "
            "--data-dir"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"others may write to {data_dir}; take that from them with `chmod go-w {data_dir}`"
        )


def check_unused(data_dir: Path) -> None:
    """What a running host reads when it restarts its gateway is left alone."""
    holder = supervisor_of(data_dir)
    if holder is not None:
        raise UsageError(
            f"{data_dir} is in use by another host, process {holder.pid}; use that one, stop it, "
            "or name another directory with --data-dir"
        )


def check_ports(setup: HostSetup) -> None:
    """Found out here, where a person sees it, and not by a worker later."""
    election = _election(setup)
    if election is not None and is_numeric(election.listen[0]):
        check_free(
            setup.data_dir,
            Address(*election.listen),
            socket.SOCK_DGRAM,
            f"it is the address of the host {setup.name} in {setup.topology.name}; "
            "stop that, or change it there",
        )
    if setup.listen is not None and setup.listen.port:
        check_free(setup.data_dir, setup.listen, socket.SOCK_STREAM, setup.other_ports)


def _check_shards(setup: HostSetup, unfinished: list[Unfinished]) -> None:
    """A shard and its disk belong together: without it those clients would wait for ever."""
    lost = [one for one in unfinished if one.shard not in setup.shards]
    if lost:
        clients = sorted({one.client for one in lost})
        shards = sorted({str(one.shard) for one in lost})
        raise UsageError(
            f"{setup.data_dir} holds the shards {', '.join(shards)} for unfinished clients "
            f"({some(clients)}), and {setup.name} would run without them; start it with those "
            "shards until the clients are done or cancelled, or name another --data-dir"
        )


def _check_secret(setup: HostSetup, unfinished: list[Unfinished]) -> None:
    path = setup.data_dir / tickets.SECRET_FILE
    known = path.read_bytes() if path.exists() else None
    if known not in (None, setup.secret, setup.also) and unfinished:
        clients = sorted({one.client for one in unfinished})
        raise UsageError(
            f"{setup.data_dir} has unfinished clients ({some(clients)}) whose tickets were "
            "signed with another secret; start the host with that one (--secret-file), or to "
            f"change it, name it by {SECRET_ALSO_FILE} for a while"
        )


def _write_secrets(setup: HostSetup) -> None:
    also = setup.data_dir / tickets.SECRET_ALSO_FILE
    if setup.also is None:
        also.unlink(missing_ok=True)
    else:
        write_private(also, setup.also)
    path = setup.data_dir / tickets.SECRET_FILE
    if not path.exists() or path.read_bytes() != setup.secret:
        write_private(path, setup.secret)


def known_queues(data_dir: Path) -> str | None:
    """The queues that a host was last started with, without the password."""
    try:
        return (data_dir / QUEUES_FILE).read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None


def _check_same_queues(setup: HostSetup, unfinished: list[Unfinished]) -> None:
    """What is on its way to unfinished clients lies in the queues that they began with."""
    address = masked(setup.queues)
    known = known_queues(setup.data_dir)
    if known is not None and unfinished and _place_of(known) != _place_of(address):
        clients = sorted({one.client for one in unfinished})
        raise UsageError(
            f"{setup.data_dir} has unfinished clients ({some(clients)}) with messages in {known}; "
            f"start the host with those queues instead of {address}, or remove "
            f"{setup.data_dir / QUEUES_FILE} if they are the same"
        )


def _place_of(address: str) -> tuple[str, ...]:
    """A broker keeps its queues when it moves to another port or is used by another user."""
    parts = urlsplit(address)
    return parts.scheme, parts.hostname or "", parts.path, parts.fragment


def _check_queues(setup: HostSetup) -> None:
    """Find a second owner of a shard before it starts, where that is cheap: in a spool."""
    root = spool_directory(setup.queues)
    if root is None:
        return
    locks = {shard: queue_files(root, str(shard)).lock for shard in setup.shards}
    deadline = time.monotonic() + QUEUE_PATIENCE
    while busy := [shard for shard, lock in locks.items() if is_locked(lock)]:
        if time.monotonic() > deadline:
            raise UsageError(
                f"{', '.join(map(str, busy))} is run by another host on this machine with the "
                f"queues in {root}; stop that one, or pick other shards"
            )
        time.sleep(0.05)


def _reached(setup: HostSetup, listen: Address) -> str:
    """Where the other gateways reach this one; empty if that is not known before it listens."""
    if not listen.port:
        return ""
    if setup.members is not None:
        return str(setup.members[setup.name].plan.gateway)
    plan = setup.topology.hosts.get(setup.name)
    return str(plan.gateway) if plan is not None else ""


def _write_gateway(setup: HostSetup, listen: Address) -> None:
    topology = setup.topology
    config = GatewayConfig(
        host=setup.name,
        listen=str(listen),
        topology=topology.name,
        shards=topology.shards,
        homes=as_it_runs(topology, setup.members or {}).homes(frozenset(setup.shards)),
        gateways=(
            topology.other_gateways(setup.name)
            if setup.members is None
            else gateways_of(topology, setup.members, setup.name)
        ),
        hosts=topology.names,
        reached=_reached(setup, listen),
        **topology.limits,  # type: ignore[arg-type]
    )
    write_gateway_config(setup.data_dir, config)
