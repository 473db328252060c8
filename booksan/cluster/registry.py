"""The hosts of a topology on this machine find each other: a small file for each of them.

A host writes its own when it starts, and tells those that are there already by renewing their
files; their supervisors notice it. It keeps its number and its ports, so that whoever knows it
finds it again. Everything here happens under one lock.
"""

import json
import socket
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

from booksan.cluster.ports import why_taken
from booksan.cluster.processes import supervisor_of
from booksan.cluster.unfinished import unfinished_clients
from booksan.errors import UsageError
from booksan.files import write_atomically
from booksan.gateway.config import GATEWAY_FILE, read_gateway_config, write_gateway_config
from booksan.supervisor.config import (
    HOST_FILE,
    ElectionConfig,
    Peer,
    Revival,
    read_config,
    write_config,
)
from booksan.supervisor.revive import STOPPED_FILE
from booksan.supervisor.states import HostState
from booksan.supervisor.status import read_status
from booksan.topology.members import Member, as_it_runs, company, stages_of
from booksan.topology.model import Address, HostPlan, ShardName, Topology

#: In what the hosts of a topology share.
MEMBERS = "members"


def read_members(shared: Path) -> dict[str, Member]:
    return {path.stem: _read(path) for path in sorted((shared / MEMBERS).glob("*.json"))}


def write_member(shared: Path, member: Member) -> None:
    (shared / MEMBERS).mkdir(mode=0o700, exist_ok=True)
    found = asdict(member) | {"data_dir": str(member.data_dir)}
    text = json.dumps(found, indent=2) + "\n"
    write_atomically(_path(shared, member.name), text.encode())


def plan_of(
    topology: Topology,
    known: Mapping[str, Member],
    name: str,
    shards: Collection[ShardName],
    listen: Address | None,
) -> HostPlan:
    """Where the host is to be found: as in the topology, or as before, or at free ports."""
    planned = topology.hosts.get(name)
    if planned is None and name in known:
        planned = known[name].plan
    if planned is None:
        planned = _new_plan(topology, known, name)
    if listen is not None and listen.port == 0:
        listen = listen._replace(port=_port(known, name, listen))
    planned = replace(planned, stages=stages_of(shards))
    if listen is None or listen == planned.listen:
        return planned
    anywhere = listen.host in ("0.0.0.0", "::")
    gateway = Address("127.0.0.1", listen.port) if anywhere else listen
    return replace(planned, gateway=gateway, listen=listen)


def take_over(shared: Path, known: Mapping[str, Member], mine: Member) -> None:
    """Refuse shards that others have; those that have ended and left nothing behind give way."""
    for other in known.values():
        both = sorted(set(other.plan.shards) & set(mine.plan.shards))
        if not both or other.data_dir == mine.data_dir:
            continue
        shards = ", ".join(map(str, both))
        running = supervisor_of(other.data_dir)
        if running is not None:
            raise UsageError(
                f"{shards} is run by another host on this machine, {other.name}, process "
                f"{running.pid}; stop that one, or pick other shards"
            )
        clients = {one.client for one in unfinished_clients(other.data_dir) if one.shard in both}
        if clients:
            raise UsageError(
                f"{shards} belongs to the host {other.name}, and unfinished clients "
                f"({', '.join(sorted(clients)[:5])}) need its disk in {other.data_dir}; start that "
                "host again, or pick other shards"
            )
        (other.data_dir / STOPPED_FILE).touch()
        _path(shared, other.name).unlink(missing_ok=True)


def election_of(topology: Topology, members: Mapping[str, Member], name: str) -> ElectionConfig:
    """`members`: all that are there, this one among them."""
    mine, present = members[name], _present(members, name)
    plans = company(topology, present)
    others = [plan for plan in plans.values() if plan.name != name]
    by_process = mine.revival is Revival.PROCESS
    return ElectionConfig(
        name,
        mine.plan.id,
        (mine.plan.address.host, mine.plan.address.port),
        {plan.name: Peer(plan.id, (plan.address.host, plan.address.port)) for plan in others},
        {
            one.name: str(one.data_dir)
            for one in present.values()
            if by_process and one.name != name
        },
        mine.revival,
    )


def gateways_of(topology: Topology, members: Mapping[str, Member], name: str) -> dict[str, str]:
    """The gateways of all other hosts that are there."""
    plans = company(topology, _present(members, name))
    without = {one.name for one in members.values() if not one.gateway}
    return {plan.name: plan.url for plan in plans.values() if plan.name not in without | {name}}


def tell_others(topology: Topology, members: Mapping[str, Member], name: str) -> None:
    """Renew what the others know of each other; their supervisors look at host.json."""
    for other in members.values():
        if other.name != name and (other.data_dir / HOST_FILE).exists():
            changed = _renew_gateway(topology, members, other)
            config = read_config(other.data_dir)
            election = election_of(topology, members, other.name)
            wanted = replace(config, election=election if election.peers else None)
            if changed or wanted != config:
                write_config(other.data_dir, wanted)


def _renew_gateway(topology: Topology, members: Mapping[str, Member], member: Member) -> bool:
    if not member.gateway or not (member.data_dir / GATEWAY_FILE).exists():
        return False
    config = read_gateway_config(member.data_dir)
    homes = as_it_runs(topology, members).homes(frozenset(member.plan.shards))
    wanted = replace(config, homes=homes, gateways=gateways_of(topology, members, member.name))
    if wanted == config:
        return False
    write_gateway_config(member.data_dir, wanted)
    return True


def _present(members: Mapping[str, Member], name: str) -> dict[str, Member]:
    """Without those that were stopped in order: nobody shall miss them."""
    return {one.name: one for one in members.values() if one.name == name or not _ended(one)}


def _ended(member: Member) -> bool:
    if supervisor_of(member.data_dir) is not None:
        return False
    status = read_status(member.data_dir)
    return (status is not None and status.state is HostState.STOPPED) or (
        member.data_dir / STOPPED_FILE
    ).exists()


def _new_plan(topology: Topology, known: Mapping[str, Member], name: str) -> HostPlan:
    """The next number, and the next ports after those of the topology that are free."""
    plans = [*topology.hosts.values(), *(one.plan for one in known.values())]
    used = {plan.address.port for plan in plans} | {plan.listen.port for plan in plans}
    address = max(plan.address.port for plan in topology.hosts.values())
    gateway = max(plan.listen.port for plan in topology.hosts.values())
    for step in count(1):
        ports = address + step, gateway + step
        if max(ports) > 65535:
            raise UsageError("there are no free ports after those of the topology; use --listen")
        here = [Address("127.0.0.1", port) for port in ports]
        kinds = (socket.SOCK_DGRAM, socket.SOCK_STREAM)
        free = all(why_taken(one, kind) is None for one, kind in zip(here, kinds, strict=True))
        if free and used.isdisjoint(ports):
            break
    return HostPlan(name, max(plan.id for plan in plans) + 1, here[0], here[1], here[1], {})


def _port(known: Mapping[str, Member], name: str, listen: Address) -> int:
    """For a host that may have any: the one of before, or one that is free now."""
    if name in known:
        return known[name].plan.listen.port
    with socket.create_server((listen.host, 0)) as found:
        return int(found.getsockname()[1])


def _path(shared: Path, name: str) -> Path:
    return shared / MEMBERS / f"{name}.json"


def _read(path: Path) -> Member:
    try:
        found = json.loads(path.read_text("utf-8"))
        return Member(
            _plan(found["plan"]),
            Path(found["data_dir"]),
            bool(found["gateway"]),
            Revival(found["revival"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} cannot be used: {error}; remove it, and start its host again"
        ) from None


def _plan(found: dict[str, Any]) -> HostPlan:
    stages = {str(stage): tuple(map(int, numbers)) for stage, numbers in found["stages"].items()}
    address, gateway, listen = (
        Address(str(found[key][0]), int(found[key][1])) for key in ("address", "gateway", "listen")
    )
    return HostPlan(str(found["name"]), int(found["id"]), address, gateway, listen, stages)
