"""`booksan host`: prepares a data directory, then becomes the supervisor."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from booksan.cluster.credentials import (
    queues_address,
    read_secret,
    read_secret_also,
    shared_secret,
)
from booksan.cluster.paths import hosts_directory, locked, make_private
from booksan.cluster.prepare import (
    HostSetup,
    check_ports,
    check_unused,
    host_environment,
    prepare,
)
from booksan.cluster.registry import plan_of, read_members, take_over, tell_others, write_member
from booksan.datasets import warn_of_broken
from booksan.errors import UsageError
from booksan.host.config import Revival
from booksan.host.handle import supervisor_command
from booksan.shards import ShardId
from booksan.spec import HOME
from booksan.supervisor.child import STOP_SIGNALS
from booksan.topology.model import Address, HostPlan, Member, Topology, name_of_picks, pick_shards
from booksan.topology.parse import NAME, RESERVED, load_topology, parse_address
from booksan_common.files import room_in
from booksan_common.names import nearest


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
    #: Of the gateway, instead of the one in the topology.
    port: int | None = None


def host_command(request: HostRequest) -> NoReturn:
    """The supervisor takes this process over, so that it has its pid and gets its signals."""
    _keep_signals()
    topology = load_topology(request.config)
    warn_of_broken()
    shared = hosts_directory(topology.name)
    with room_in(shared):
        make_private(shared)
    with locked(shared, wait=True):
        setup = host_setup(request, topology)
        env = host_environment(os.environ, setup.queues)
        with room_in(setup.data_dir):
            check_unused(setup.data_dir)
            join(setup, check_ports)
    if sys.stderr.isatty():
        sys.stderr.write(f"booksan: {setup.name} starts, data in {setup.data_dir}\n")
        sys.stderr.flush()
    command = supervisor_command(setup.data_dir)
    os.execve(command[0], command, env)


def join(setup: HostSetup, check: Callable[[HostSetup], None] = lambda _: None) -> None:
    """Get the data directory ready, and be known to the other hosts on this machine.

    `check` comes when no other host has the shards, and before anything is written.
    """
    shared = hosts_directory(setup.topology.name)
    if setup.members is None:
        check(setup)
        prepare(setup)
        return
    mine = setup.members[setup.name]
    take_over(shared, read_members(shared), mine)
    check(setup)
    prepare(setup)
    write_member(shared, mine)
    tell_others(setup.topology, setup.members, setup.name)


def host_setup(request: HostRequest, topology: Topology | None = None) -> HostSetup:
    topology = topology or load_topology(request.config)
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
    members = None
    if topology.is_local and request.revival is not Revival.DOCKER:
        known = read_members(shared)
        found = plan_of(topology, known, name, shards, listen)
        listen = found.listen if request.gateway else None
        mine = Member(found, data_dir, request.gateway, request.revival)
        # Whoever has a shard of this one gives way to it, or it is refused.
        kept = {one.name: one for one in known.values() if not set(one.plan.shards) & set(shards)}
        members = kept | {name: mine}
    return HostSetup(
        topology,
        name,
        shards,
        data_dir,
        listen,
        secret,
        queues,
        revival=request.revival,
        also=read_secret_also(os.environ),
        members=members,
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
        _check_local(topology)
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


def _check_local(topology: Topology) -> None:
    """Across machines only the file can tell hosts of each other."""
    if not topology.is_local:
        raise UsageError(
            f"the hosts of {topology.name} are on several machines and know each other by its "
            "file: add a table [hosts.NAME] for this one, with its address and its stages, and "
            "start it with --name NAME"
        )


def _check_name(name: str | None) -> None:
    """It becomes a directory."""
    if name is not None and (not NAME.fullmatch(name) or name in RESERVED):
        raise UsageError(
            f"--name {name!r} is not usable: up to 32 lower-case letters, digits and hyphens, and "
            f"none of {', '.join(sorted(RESERVED))}"
        )


def _all_of(plan: HostPlan | None) -> tuple[ShardId, ...]:
    assert plan is not None, "without picks there is a plan"
    return plan.shards


def _name_of(plan: HostPlan | None) -> str:
    assert plan is not None, "without picks there is a plan"
    return plan.name


def _listen(
    request: HostRequest, plan: HostPlan | None, shards: tuple[ShardId, ...]
) -> Address | None:
    if not request.gateway:
        homes = [str(shard) for shard in shards if shard.stage == HOME]
        if homes:
            raise UsageError(
                f"{', '.join(homes)} is the home of clients, which other hosts reach by the "
                "gateway beside it; leave out --no-gateway, or pick other stages"
            )
        return None
    if request.port is not None:
        if request.listen is not None:
            raise UsageError("--port and --listen exclude each other")
        where = plan.listen if plan is not None else Address("127.0.0.1", 0)
        return where._replace(port=request.port)
    if request.listen is not None:
        try:
            return parse_address(request.listen)
        except ValueError as error:
            raise UsageError(f"--listen {error}") from None
    return plan.listen if plan is not None else None
