"""A topology: its hosts, the shards of each, their addresses, and the queues between them."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from booksan.spec import HOME


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


class ShardName(NamedTuple):
    stage: str
    shard: int

    def __str__(self) -> str:
        return f"{self.stage}.{self.shard}"


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
    def shards(self) -> tuple[ShardName, ...]:
        return tuple(ShardName(stage, one) for stage, all_ in self.stages.items() for one in all_)

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
    def owners(self) -> Mapping[ShardName, str]:
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

    def homes(self, mine: frozenset[ShardName]) -> dict[int, str]:
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
