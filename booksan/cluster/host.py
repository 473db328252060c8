"""`booksan host`: prepares a data directory, then becomes the supervisor."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from booksan.cluster.credentials import queues_address, read_secret, shared_secret
from booksan.cluster.places import hosts_directory, make_private
from booksan.cluster.prepare import HostSetup, host_environment, prepare, supervisor_command
from booksan.errors import UsageError
from booksan.files import room_in
from booksan.spec import HOME
from booksan.supervisor.config import Revival
from booksan.supervisor.wakeup import STOP_SIGNALS
from booksan.topology.files import load_topology
from booksan.topology.model import Address, HostPlan, ShardName, Topology
from booksan.topology.parse import NAME, RESERVED, parse_address
from booksan.topology.picks import name_of_picks, pick_shards
from booksan.topology.section import nearest

#: For a host that is in no topology: a free port, told in gateway-address.json.
ANYWHERE = Address("127.0.0.1", 0)


@dataclass(frozen=True)
class HostRequest:
    """The command line, not looked at yet."""

    config: str
    name: str | None
    stages: str | None
    data_dir: Path | None
    gateway: bool
    listen: str | None
    secret_file: Path | None
    queues_file: Path | None
    revival: Revival = Revival.PROCESS


def host_command(request: HostRequest) -> NoReturn:
    """The supervisor takes this process over, so that it has its pid and gets its signals."""
    _keep_signals()
    setup = host_setup(request)
    env = host_environment(os.environ, setup.queues)
    with room_in(setup.data_dir):
        prepare(setup)
    if sys.stderr.isatty():
        sys.stderr.write(f"booksan: {_described(setup)}\n")
        sys.stderr.flush()
    command = supervisor_command(setup.data_dir)
    os.execve(command[0], command, env)


def host_setup(request: HostRequest) -> HostSetup:
    topology = load_topology(request.config)
    plan = _plan(topology, request)
    shards = pick_shards(topology, request.stages) if request.stages else _all_of(plan)
    name = request.name or (name_of_picks(request.stages) if request.stages else _name_of(plan))
    shared = hosts_directory(topology.name)
    with room_in(shared):
        make_private(shared)
        secret = read_secret(os.environ, request.secret_file) or shared_secret(topology, shared)
    queues = queues_address(topology, os.environ, request.queues_file, shared / "spool")
    data_dir = (request.data_dir or shared / name).absolute()
    listen = _listen(request, plan, shards)
    return HostSetup(
        topology, name, shards, data_dir, listen, secret, queues, revival=request.revival
    )


def _keep_signals() -> None:
    """Process 1 of a container is deaf to signals that it does not catch, so a stop would be lost
    that comes before the supervisor listens. Blocked ones wait for it."""
    if os.getpid() == 1:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def _plan(topology: Topology, request: HostRequest) -> HostPlan | None:
    """The host in the topology that this one is; None for one of hand-picked shards."""
    if request.name is not None and request.name in topology.hosts:
        return topology.hosts[request.name]
    if request.stages:
        _check_name(request.name)
        return None
    if request.name is not None:
        raise UsageError(
            f"{topology.name} has no host {request.name!r}; {nearest(request.name, topology.hosts)}"
        )
    if len(topology.hosts) > 1:
        raise UsageError(
            f"{topology.name} has the hosts {', '.join(topology.hosts)}; say which one this is "
            "with --name, or pick shards with --stages"
        )
    return next(iter(topology.hosts.values()))


def _check_name(name: str | None) -> None:
    """It becomes a directory."""
    if name is not None and (not NAME.fullmatch(name) or name in RESERVED):
        raise UsageError(
            f"--name {name!r} is not usable: up to 32 lower-case letters, digits and hyphens, and "
            f"none of {', '.join(sorted(RESERVED))}"
        )


def _all_of(plan: HostPlan | None) -> tuple[ShardName, ...]:
    assert plan is not None, "without picks there is a plan"
    return plan.shards


def _name_of(plan: HostPlan | None) -> str:
    assert plan is not None, "without picks there is a plan"
    return plan.name


def _listen(
    request: HostRequest, plan: HostPlan | None, shards: tuple[ShardName, ...]
) -> Address | None:
    if not request.gateway:
        homes = [str(shard) for shard in shards if shard.stage == HOME]
        if homes:
            raise UsageError(
                f"{', '.join(homes)} is the home of clients, which other hosts reach by the "
                "gateway beside it; leave out --no-gateway, or pick other stages"
            )
        return None
    if request.listen is not None:
        try:
            return parse_address(request.listen)
        except ValueError as error:
            raise UsageError(f"--listen {error}") from None
    return plan.listen if plan is not None else ANYWHERE


def _described(setup: HostSetup) -> str:
    shards = ", ".join(map(str, setup.shards))
    if setup.listen is None:
        gateway = "no gateway"
    elif setup.listen.port == 0:
        gateway = f"gateway told in {setup.data_dir / 'gateway-address.json'}"
    else:
        gateway = f"gateway http://{setup.listen}"
    return f"host {setup.name}: {shards}; {gateway}; data in {setup.data_dir}"
