"""From a name or a path to a topology; errors name the file and the key."""

import re
import sysconfig
import tomllib
from collections.abc import Collection, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta, Struct

import booksan
from booksan.datasets import broken_datasets, datasets
from booksan.errors import UsageError
from booksan.host.config import Limits
from booksan.shards import ShardId
from booksan.stages.graph import Dataset
from booksan.topology.model import Address, HostPlan, Queues, QueuesKind, Topology
from booksan_common.decoding import decoded
from booksan_common.names import nearest

# What holds for a topology as a whole, beyond what each key must look like.


def check(topology: Topology, stages: Collection[str]) -> None:
    """`stages`: all that the data sets of the topology need."""
    if not topology.hosts:
        raise UsageError("hosts: there is none; add a table such as [hosts.alpha]")
    _check_hosts(topology)
    _check_shards(topology)
    missing = sorted(set(stages) - set(topology.shards))
    if missing:
        raise UsageError(
            f"no host runs {', '.join(missing)}; add it to the stages of one, such as "
            f"{missing[0]} = [0], or take its data set out of datasets"
        )
    if topology.queues.kind is QueuesKind.SPOOL and not topology.on_one_machine:
        raise UsageError(
            "queues.kind: a spool is on one machine, but the hosts have addresses on "
            "several; use kind = 'rabbitmq'"
        )


def _check_hosts(topology: Topology) -> None:
    hosts = topology.hosts.values()
    _check_unique("id", ((host.name, host.id) for host in hosts))
    _check_unique("address", ((host.name, host.address) for host in hosts))
    _check_unique("gateway", ((host.name, host.gateway) for host in hosts))


def _check_unique(key: str, values: Iterable[tuple[str, Hashable]]) -> None:
    seen: dict[Hashable, str] = {}
    for host, value in values:
        if value in seen:
            raise UsageError(
                f"hosts.{host}.{key}: {value} is taken by hosts.{seen[value]}; "
                "give each host its own"
            )
        seen[value] = host


def _check_shards(topology: Topology) -> None:
    owners: dict[ShardId, str] = {}
    for host in topology.hosts.values():
        for shard in host.shards:
            if shard in owners:
                raise UsageError(
                    f"hosts.{host.name}.stages.{shard.stage}: shard {shard.shard} is on "
                    f"{owners[shard]} already; a shard is on one host, with its disk"
                )
            owners[shard] = host.name
    for stage in sorted({one.stage for one in owners}):
        numbers = sorted(one.shard for one in owners if one.stage == stage)
        gaps = sorted(set(range(numbers[-1])) - set(numbers))
        if gaps:
            raise UsageError(
                f"{stage}: no host has shard {gaps[0]}, though there is {numbers[-1]}; "
                "number the shards of a stage 0, 1, 2, ... over all hosts"
            )


# From the text of a topology's file to a topology.

#: Names become directories, host names and prefixes of queues.
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_ADDRESS = re.compile(r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+)):(?P<port>[0-9]{1,5})")

#: What hosts on one machine share lies beside their data directories, which have their names.
RESERVED = frozenset({"spool", "secret", "members"})

#: Before the address of a gateway that speaks TLS.
_TLS = "https://"


# The file as it is written.


def _like(example: str) -> Meta:
    return Meta(min_length=1, description=f"text such as {example!r}")


_Shards = Annotated[
    tuple[Annotated[int, Meta(ge=0)], ...],
    Meta(min_length=1, description="a list such as [0, 1], of shard numbers from 0 on"),
]


class _Host(Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[int, Meta(ge=1, description="a whole number from 1 on")]
    address: Annotated[str, _like("127.0.0.1:7401")]
    gateway: Annotated[str, _like("127.0.0.1:7301")]
    stages: Annotated[
        Mapping[str, _Shards], Meta(description="a table such as [hosts.alpha.stages]")
    ]
    listen: Annotated[str, _like("0.0.0.0:7300")] | None = None


class _Queues(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Annotated[QueuesKind, Meta(description="'spool' or 'rabbitmq'")] = QueuesKind.SPOOL
    url: Annotated[str, _like("amqp://127.0.0.1:5672/")] | None = None


class _Gateway(Limits, frozen=True):
    #: Names by which clients call it.
    hosts: Annotated[tuple[str, ...], Meta(description='a list such as ["books.example.org"]')] = ()


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, _like("three")]
    hosts: Annotated[
        Mapping[str, Annotated[_Host, Meta(description="a table such as [hosts.alpha]")]],
        Meta(description="a table, [hosts]"),
    ]
    datasets: (
        Annotated[
            tuple[str, ...], Meta(description="a list of names that `booksan datasets` tells")
        ]
        | None
    ) = None
    queues: Annotated[_Queues, Meta(description="a table, [queues]")] = _Queues()
    gateway: Annotated[dict[str, Any], Meta(description="a table, [gateway]")] = {}


class _Wrong(UsageError):
    """A key, and what is wrong with its value."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")


def parse_topology(
    text: str, file: str, datasets: Mapping[str, Dataset], broken: Mapping[str, str] | None = None
) -> Topology:
    """`file` is for the errors; `datasets` are all that there are, `broken` why others are not."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    try:
        return _topology(decoded(_File, found), datasets, broken or {})
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def _topology(found: _File, datasets: Mapping[str, Dataset], broken: Mapping[str, str]) -> Topology:
    wanted = _datasets(found.datasets, datasets, broken)
    stages = {stage.name for name in wanted for stage in datasets[name].stages}
    gateway = decoded(_Gateway, found.gateway, "gateway")
    _check_name("name", found.name)
    topology = Topology(
        name=found.name,
        datasets=wanted,
        queues=_queues(found.queues),
        hosts={name: _host(name, host, stages) for name, host in found.hosts.items()},
        limits={name: getattr(gateway, name) for name in found.gateway if name != "hosts"},
        names=gateway.hosts,
    )
    if found.datasets is None:
        topology = topology.with_stages(stages)
    check(topology, stages)
    return topology


def parse_address(text: str) -> Address:
    """`name:port`, `1.2.3.4:port` or `[::1]:port`; ValueError says what is wrong."""
    found = _ADDRESS.fullmatch(text)
    if not found or (found["name"] and not _HOST.fullmatch(found["name"])):
        raise ValueError(f"must look like 127.0.0.1:7301, not {text!r}")
    port = int(found["port"])
    if port > 65535:
        raise ValueError(f"has no port: {port} is above 65535")
    return Address(found["six"] or found["name"], port)


def _check_name(key: str, name: str) -> None:
    if not NAME.fullmatch(name):
        text = f"{name!r} is not a name: use up to 32 lower-case letters, digits and hyphens"
        raise _Wrong(key, text)


def _datasets(
    wanted: tuple[str, ...] | None, known: Mapping[str, Dataset], broken: Mapping[str, str]
) -> tuple[str, ...]:
    if wanted is None:
        return tuple(known)
    for name in wanted:
        if name in broken and name not in known:
            raise _Wrong("datasets", f"{name!r} cannot be used: {broken[name]}")
        if name not in known:
            raise _Wrong("datasets", f"there is no data set {name!r}; {nearest(name, known)}")
    if not wanted or len(wanted) != len(set(wanted)):
        raise _Wrong("datasets", "must name at least one data set, and none twice")
    return wanted


def _queues(found: _Queues) -> Queues:
    if found.kind is QueuesKind.SPOOL:
        if found.url is not None:
            raise _Wrong("queues.url", "a spool has none; remove it, or set kind = 'rabbitmq'")
        return Queues(QueuesKind.SPOOL)
    if found.url is None:
        raise _Wrong("queues.url", "must be text such as 'amqp://127.0.0.1:5672/'; it is missing")
    _check_broker(found.url)
    return Queues(QueuesKind.RABBITMQ, found.url)


def _check_broker(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("amqp", "amqps") and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    # The value is not repeated: it may hold a password.
    if not usable:
        raise _Wrong("queues.url", "must look like amqp://127.0.0.1:5672/")
    if parts.username or parts.password:
        text = "holds credentials; take them out and set BOOKSAN_QUEUES to the whole address"
        raise _Wrong("queues.url", text)


def _host(name: str, found: _Host, known: set[str]) -> HostPlan:
    key = f"hosts.{name}"
    _check_name(key, name)
    if name in RESERVED:
        raise _Wrong(key, "this name is kept for what the hosts share; use another")
    gateway = _address(f"{key}.gateway", found.gateway.removeprefix(_TLS))
    return HostPlan(
        name=name,
        id=found.id,
        address=_address(f"{key}.address", found.address),
        gateway=gateway,
        listen=_address(f"{key}.listen", found.listen) if found.listen else gateway,
        stages=_stages(f"{key}.stages", found.stages, known),
        tls=found.gateway.startswith(_TLS),
    )


def _address(key: str, text: str) -> Address:
    try:
        address = parse_address(text)
    except ValueError as error:
        raise _Wrong(key, str(error)) from None
    if not address.port:
        raise _Wrong(key, "needs a port from 1 on: the other hosts must know it")
    return address


def _stages(
    key: str, found: Mapping[str, tuple[int, ...]], known: set[str]
) -> dict[str, tuple[int, ...]]:
    for stage, shards in found.items():
        if stage not in known:
            raise _Wrong(f"{key}.{stage}", f"there is no such stage; {nearest(stage, known)}")
        if len(shards) != len(set(shards)):
            raise _Wrong(f"{key}.{stage}", f"names a shard twice: {list(shards)}")
    if not found:
        raise _Wrong(key, "a host needs at least one shard, such as q3-join = [0]")
    return {stage: tuple(sorted(shards)) for stage, shards in found.items()}


# A topology by its name (`three`) or by the path of its file (`hosts/three.toml`).

DEFAULT = "single"


def topology_directories() -> tuple[Path, ...]:
    """In a source tree, else where the installation put them."""
    source = Path(booksan.__file__).resolve().parent.parent / "hosts"
    return source, Path(sysconfig.get_path("data")) / "share" / "booksan" / "hosts"


def known_topologies() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for directory in topology_directories():
        for path in sorted(directory.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def find_topology(config: str) -> Path:
    """What has a slash or a suffix is a path; a plain name is one that booksan knows."""
    if not NAME.fullmatch(config):
        return Path(config)
    known = known_topologies()
    if config not in known:
        raise UsageError(
            f"no topology is named {config!r}; {nearest(config, known)}; or give a file's path"
        )
    return known[config]


def load_topology(config: str = DEFAULT) -> Topology:
    path = find_topology(config)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not TOML: it is not text in UTF-8") from None
    except OSError as error:
        raise UsageError(
            f"the topology {path} cannot be read: {error.strerror}; give a file's path or one of "
            f"the names {', '.join(sorted(known_topologies()))}"
        ) from None
    return parse_topology(text, str(path), datasets(), broken_datasets())
