"""The hosts that run a topology on one machine: those in its file, and those picked by hand.

A **member** is a host that was started there, with the shards that it has taken; what nobody has
taken is still with the hosts that the file plans it for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from booksan.supervisor.config import Revival
from booksan.topology.model import HostPlan, ShardName, Topology


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


def company(topology: Topology, members: Mapping[str, Member]) -> dict[str, HostPlan]:
    """Whom the hosts elect with: members, and planned hosts that nobody has taken a shard of."""
    taken = {shard for member in members.values() for shard in member.plan.shards}
    planned = {
        host.name: host
        for host in topology.hosts.values()
        if host.name not in members and taken.isdisjoint(host.shards)
    }
    return planned | {one.name: one.plan for one in members.values()}


def stages_of(shards: Iterable[ShardName]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for stage, shard in shards:
        found.setdefault(stage, []).append(shard)
    return {stage: tuple(sorted(numbers)) for stage, numbers in found.items()}


def _without(host: HostPlan, taken: set[ShardName]) -> HostPlan:
    return replace(host, stages=stages_of(one for one in host.shards if one not in taken))
