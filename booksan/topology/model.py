"""A topology as plain data: its hosts, their shards and addresses, those picked by hand too."""

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from booksan.errors import UsageError
from booksan.host.config import Revival
from booksan.shards import ShardId
from booksan.spec import HOME
from booksan_common.names import nearest

# A topology: its hosts, the shards of each, their addresses, and the queues between them.


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class QueuesKind(StrEnum):
    SPOOL = "spool"
    RABBITMQ = "rabbitmq"


@dataclass(frozen=True)
class Queues:
    kind: QueuesKind
    #: Of the broker, without credentials; nothing for a spool.
    url: str = ""


@dataclass(frozen=True)
class HostPlan:
    name: str
    id: int
    #: Where the supervisor hears the others (UDP).
    address: Address
    #: Where the others and the clients reach the gateway.
    gateway: Address
    #: Where the gateway listens: in a container that is not where it is reached.
    listen: Address
    stages: Mapping[str, tuple[int, ...]]
    #: Whether its gateway speaks TLS.
    tls: bool = False

    @property
    def shards(self) -> tuple[ShardId, ...]:
        return tuple(ShardId(stage, one) for stage, all_ in self.stages.items() for one in all_)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.gateway}"


@dataclass(frozen=True)
class Topology:
    name: str
    datasets: tuple[str, ...]
    queues: Queues
    hosts: Mapping[str, HostPlan]
    #: What differs from the gateway's own defaults.
    limits: Mapping[str, float] = field(default_factory=dict)
    #: Names by which clients call the gateways, beside those in the addresses.
    names: tuple[str, ...] = ()

    @cached_property
    def owners(self) -> Mapping[ShardId, str]:
        """The host of every shard."""
        return {shard: host.name for host in self.hosts.values() for shard in host.shards}

    @cached_property
    def shards(self) -> dict[str, int]:
        """How many shards each stage has over all hosts."""
        counts: dict[str, int] = {}
        for stage, _ in self.owners:
            counts[stage] = counts.get(stage, 0) + 1
        return counts

    @property
    def on_one_machine(self) -> bool:
        """As far as the addresses tell: all loopback, or all the same."""
        addresses = [host.address for host in self.hosts.values()]
        return len({"" if one.is_loopback else one.host for one in addresses}) == 1

    @property
    def is_local(self) -> bool:
        return all(host.address.is_loopback for host in self.hosts.values())

    def homes(self, mine: frozenset[ShardId]) -> dict[int, str]:
        """The gateway beside each home; nothing for those on the host with the shards `mine`."""
        return {
            one.shard: "" if one in mine else self.hosts[owner].url
            for one, owner in self.owners.items()
            if one.stage == HOME
        }

    def other_gateways(self, name: str) -> dict[str, str]:
        return {host.name: host.url for host in self.hosts.values() if host.name != name}

    def with_ports(self, ports: Mapping[str, tuple[int, int]]) -> "Topology":
        """The same with other ports: of the supervisor and the gateway, by host."""
        return replace(self, hosts={name: _moved(self.hosts[name], *ports[name]) for name in ports})

    def with_stages(self, stages: Iterable[str]) -> "Topology":
        """A host that is alone also runs those of these stages that it does not name."""
        if len(self.hosts) != 1:
            return self
        (host,) = self.hosts.values()
        more = dict.fromkeys(sorted(set(stages) - set(host.stages)), (0,))
        alone = replace(host, stages={**host.stages, **more})
        return replace(self, hosts={host.name: alone})

    def as_dict(self) -> dict[str, Any]:
        """All but the addresses, for comparing: what the hosts of a cluster must agree on."""
        return {
            "name": self.name,
            "datasets": list(self.datasets),
            "queues": self.queues.kind.value,
            "hosts": {
                host.name: {"id": host.id, "stages": {s: list(n) for s, n in host.stages.items()}}
                for host in self.hosts.values()
            },
            "limits": dict(self.limits),
        }


def _moved(host: HostPlan, address: int, gateway: int) -> HostPlan:
    return replace(
        host,
        address=host.address._replace(port=address),
        gateway=host.gateway._replace(port=gateway),
        listen=host.listen._replace(port=gateway),
    )


# The hosts that run a topology on one machine: those in its file, and those picked by hand.
#
# A **member** is a host that was started there, with the shards that it has taken; what nobody has
# taken is still with the hosts that the file plans it for.


@dataclass(frozen=True)
class Member:
    plan: HostPlan
    data_dir: Path
    #: Whether clients and other hosts reach it by a gateway.
    gateway: bool = True
    #: How it brings others back, if it leads.
    revival: Revival = Revival.PROCESS

    @property
    def name(self) -> str:
        return self.plan.name


def as_it_runs(topology: Topology, members: Mapping[str, Member]) -> Topology:
    """With the members in the place of the plans; every shard still has one host."""
    taken = {shard for member in members.values() for shard in member.plan.shards}
    plans = [host for host in topology.hosts.values() if host.name not in members]
    rest = {host.name: _without(host, taken) for host in plans}
    hosts = {name: host for name, host in rest.items() if host.stages}
    return replace(topology, hosts=hosts | {one.name: one.plan for one in members.values()})


def all_hosts(topology: Topology, members: Mapping[str, Member]) -> dict[str, HostPlan]:
    """Whom the hosts elect with: members, and planned hosts that nobody has taken a shard of."""
    taken = {shard for member in members.values() for shard in member.plan.shards}
    planned = {
        host.name: host
        for host in topology.hosts.values()
        if host.name not in members and taken.isdisjoint(host.shards)
    }
    return planned | {one.name: one.plan for one in members.values()}


def stages_of(shards: Iterable[ShardId]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for stage, shard in shards:
        found.setdefault(stage, []).append(shard)
    return {stage: tuple(sorted(numbers)) for stage, numbers in found.items()}


def _without(host: HostPlan, taken: set[ShardId]) -> HostPlan:
    return replace(host, stages=stages_of(one for one in host.shards if one not in taken))


# Shards picked by hand: `q3-join` is all shards of the stage, `q3-join.1` one of them.

_PICK = re.compile(r"(?P<stage>[^.]+)(\.(?P<shard>[0-9]{1,6}))?")


def pick_shards(topology: Topology, text: str) -> tuple[ShardId, ...]:
    """In the order of the picks; picking one twice is picking it once."""
    picked: dict[ShardId, None] = {}
    for pick in filter(None, (part.strip() for part in text.split(","))):
        picked.update(dict.fromkeys(_shards(topology, pick)))
    if not picked:
        raise UsageError(f"--stages names no stage; {nearest('', topology.shards)}")
    return tuple(picked)


def _shards(topology: Topology, pick: str) -> list[ShardId]:
    found = _PICK.fullmatch(pick)
    stage = found["stage"] if found else pick
    if found is None or stage not in topology.shards:
        raise UsageError(
            f"--stages: {topology.name} has no stage {stage!r}; {nearest(stage, topology.shards)}"
        )
    count = topology.shards[stage]
    if found["shard"] is None:
        return [ShardId(stage, number) for number in range(count)]
    if int(found["shard"]) >= count:
        raise UsageError(
            f"--stages: {topology.name} has no shard {pick}; {stage} has 0 to {count - 1}"
        )
    return [ShardId(stage, int(found["shard"]))]


def name_of_picks(text: str) -> str:
    """A host's name made of its picks: the same picks, the same data directory."""
    picks = sorted({part.strip() for part in text.split(",")} - {""})
    name = "-".join(pick.replace(".", "-") for pick in picks)
    if len(name) <= 48:
        return name
    return f"{name[:39]}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
