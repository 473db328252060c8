"""What holds for a topology as a whole, beyond what each key must look like."""

from collections.abc import Collection, Hashable, Iterable

from booksan.errors import UsageError
from booksan.topology.model import QueuesKind, ShardName, Topology


def check(topology: Topology, file: str, stages: Collection[str]) -> None:
    """`stages`: all that the data sets of the topology need."""
    if not topology.hosts:
        raise UsageError(f"{file}: hosts: there is none; add a table such as [hosts.alpha]")
    _check_hosts(topology, file)
    _check_shards(topology, file)
    missing = sorted(set(stages) - set(topology.shards))
    if missing:
        raise UsageError(
            f"{file}: no host runs {', '.join(missing)}; add it to the stages of one, such as "
            f"{missing[0]} = [0], or take its data set out of datasets"
        )
    if topology.queues.kind is QueuesKind.SPOOL and not topology.on_one_machine:
        raise UsageError(
            f"{file}: queues.kind: a spool is on one machine, but the hosts have addresses on "
            "several; use kind = 'rabbitmq'"
        )


def _check_hosts(topology: Topology, file: str) -> None:
    hosts = topology.hosts.values()
    _check_unique(file, "id", ((host.name, host.id) for host in hosts))
    _check_unique(file, "address", ((host.name, host.address) for host in hosts))
    _check_unique(file, "gateway", ((host.name, host.gateway) for host in hosts))


def _check_unique(file: str, key: str, values: Iterable[tuple[str, Hashable]]) -> None:
    seen: dict[Hashable, str] = {}
    for host, value in values:
        if value in seen:
            raise UsageError(
                f"{file}: hosts.{host}.{key}: {value} is taken by hosts.{seen[value]}; "
                "give each host its own"
            )
        seen[value] = host


def _check_shards(topology: Topology, file: str) -> None:
    owners: dict[ShardName, str] = {}
    for host in topology.hosts.values():
        for shard in host.shards:
            if shard in owners:
                raise UsageError(
                    f"{file}: hosts.{host.name}.stages.{shard.stage}: shard {shard.shard} is on "
                    f"{owners[shard]} already; a shard is on one host, with its disk"
                )
            owners[shard] = host.name
    for stage in sorted({one.stage for one in owners}):
        numbers = sorted(one.shard for one in owners if one.stage == stage)
        gaps = sorted(set(range(numbers[-1])) - set(numbers))
        if gaps:
            raise UsageError(
                f"{file}: {stage}: no host has shard {gaps[0]}, though there is {numbers[-1]}; "
                "number the shards of a stage 0, 1, 2, ... over all hosts"
            )
