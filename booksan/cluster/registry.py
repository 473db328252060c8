"""The hosts of a topology on this machine find each other: a small file for each of them.

A host writes its own when it starts, and tells those that are there already by renewing their
files; their supervisors notice it. It keeps its number and its ports, so that whoever knows it
finds it again. Everything here happens under one lock.
"""

import json
import socket
import ssl
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from booksan.cluster.paths import HostRecord, why_taken
from booksan.cluster.processes import supervisor_of
from booksan.errors import UsageError
from booksan.gateway.config import GATEWAY_FILE, read_gateway_config, write_gateway_config
from booksan.host.config import HOST_FILE, ElectionConfig, Peer, Revival, read_config, write_config
from booksan.host.logs import LOGS, SUPERVISOR_LOG, last_line
from booksan.host.status import HostState, read_status
from booksan.membership.revive import STOPPED_FILE
from booksan.shards import ShardId
from booksan.state.readers import unfinished_clients
from booksan.topology.model import (
    Address,
    HostPlan,
    Member,
    Topology,
    all_hosts,
    as_it_runs,
    stages_of,
)
from booksan_client.wire import AUTHORITY, Broken, Request, Wire
from booksan_common.errors import BooksanError
from booksan_common.files import make_directory, write_atomically

#: In what the hosts of a topology share.
MEMBERS = "members"


def read_members(shared: Path) -> dict[str, Member]:
    return {path.stem: _read(path) for path in sorted((shared / MEMBERS).glob("*.json"))}


def running_members(shared: Path) -> dict[str, Member]:
    """Those of which nobody has said that they are to end; none if not one of them lives."""
    members = read_members(shared)
    if not any(supervisor_of(one.data_dir) for one in members.values()):
        return {}
    return {name: one for name, one in members.items() if not _ended(one)}


def write_member(shared: Path, member: Member) -> None:
    make_directory(shared / MEMBERS, 0o700)
    found = asdict(member) | {"data_dir": str(member.data_dir)}
    text = json.dumps(found, indent=2) + "\n"
    write_atomically(_path(shared, member.name), text.encode())


def plan_of(
    topology: Topology,
    known: Mapping[str, Member],
    name: str,
    shards: Collection[ShardId],
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
    plans = all_hosts(topology, present)
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
    plans = all_hosts(topology, _present(members, name))
    without = {one.name for one in members.values() if not one.gateway}
    return {plan.name: plan.url for plan in plans.values() if plan.name not in without | {name}}


def tell_others(topology: Topology, members: Mapping[str, Member], name: str) -> None:
    """Renew what the others know of each other; their supervisors look at host.json."""
    for other in members.values():
        if other.name != name and (other.data_dir / HOST_FILE).exists():
            changed = _renew_gateway(topology, members, other)
            config = read_config(other.data_dir)
            election = election_of(topology, members, other.name)
            wanted = msgspec.structs.replace(config, election=election if election.peers else None)
            if changed or wanted != config:
                write_config(other.data_dir, wanted)


def _renew_gateway(topology: Topology, members: Mapping[str, Member], member: Member) -> bool:
    if not member.gateway or not (member.data_dir / GATEWAY_FILE).exists():
        return False
    config = read_gateway_config(member.data_dir)
    homes = as_it_runs(topology, members).homes(frozenset(member.plan.shards))
    gateways = gateways_of(topology, members, member.name)
    wanted = msgspec.structs.replace(config, homes=homes, gateways=gateways)
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
    tls = bool(found.get("tls"))
    return HostPlan(str(found["name"]), int(found["id"]), address, gateway, listen, stages, tls)


# Whether a host is at work: its supervisor reports running, its gateway answers.

#: Seconds for one question to a gateway.
_ASK_SECONDS = 3.0


@dataclass(frozen=True)
class Starting:
    """A host that was started, and where in the log its output begins."""

    name: str
    record: HostRecord
    log_offset: int


def waits_for(host: Starting) -> str | None:
    """What the host still lacks, None when it is at work; BooksanError when it has failed."""
    data_dir = Path(host.record.data_dir)
    # A leader may have been quicker to start it: then the process that was started here has ended.
    process = host.record.supervisor()
    pids = [one.pid for one in (host.record.process, process) if one is not None]
    status = read_status(data_dir)
    mine = status if status is not None and status.pid in pids else None
    if mine is not None and mine.error:
        raise BooksanError(f"host {host.name} cannot start: {mine.error} (see {data_dir / LOGS})")
    if process is None:
        words = last_line(data_dir / LOGS / SUPERVISOR_LOG, host.log_offset)
        raise BooksanError(f"host {host.name} ended: {words} (see {data_dir / LOGS})")
    if mine is None or mine.state is not HostState.RUNNING:
        return "its supervisor has not started all workers"
    # The gateway knows best what is lacking, if it is not a worker that has not come so far yet.
    lacks = ask_gateway(host.record.gateway, host.name)
    return lacks or (None if mine.ready else "not all of its workers are at work")


class Health(NamedTuple):
    """What a gateway says of itself."""

    host: str
    status: str
    #: Its own clock, if it tells.
    date: str | None

    @property
    def is_good(self) -> bool:
        return self.status == "ok"


def ask_health(url: str) -> Health:
    """Raises Broken or a ValueError if no gateway answers."""
    with closing(Wire()) as wire:
        answer = wire.send(url, Request("GET", "/v1/health", timeout=_ASK_SECONDS))
    found = json.loads(answer.body)
    if not isinstance(found, dict) or "host" not in found or "status" not in found:
        raise ValueError("it does not speak like a gateway")
    return Health(str(found["host"]), str(found["status"]), answer.headers.get("Date"))


def ask_gateway(url: str, name: str) -> str | None:
    """Why the gateway of a host does not serve; None if it does."""
    try:
        found = ask_health(url)
    except (Broken, ValueError) as error:
        return f"its gateway {url} does not answer: {error.__cause__ or error}{_advice(error)}"
    if found.host != name:
        return f"{url} is answered by something else than its gateway"
    return None if found.is_good else f"its gateway {url} says: {found.status}"


def _advice(error: Exception) -> str:
    if isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return f"; name the authority that signed its certificate by {AUTHORITY}"
    return ""
