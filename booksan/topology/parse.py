"""From a name or a path to a topology; errors name the file and the key."""

import json
import re
import sysconfig
import tomllib
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import booksan
from booksan.datasets import broken_datasets, datasets
from booksan.errors import UsageError
from booksan.shards import ShardId
from booksan.stages.graph import Dataset
from booksan.topology.model import Address, HostPlan, Queues, QueuesKind, Topology
from booksan_common.names import nearest

# One table of a TOML file. Every error names the file and the key, and says what to do.


class Section:
    def __init__(self, file: str, path: str, found: Mapping[str, Any]) -> None:
        self.file = file
        self.path = path
        self._found = found

    def error(self, key: str, message: str) -> UsageError:
        where = ".".join(part for part in (self.path, key) if part)
        return UsageError(f"{self.file}: {where}: {message}")

    def allow(self, *known: str) -> None:
        for key in self._found:
            if key not in known:
                raise self.error(key, f"there is no such key; {nearest(key, known)}")

    def keys(self) -> Iterator[str]:
        return iter(self._found)

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def text(self, key: str, example: str) -> str:
        value = self._found.get(key)
        if not isinstance(value, str) or not value:
            raise self.error(key, f"must be text such as {example!r}{_not(key, self._found)}")
        return value

    def whole(self, key: str, low: int) -> int:
        value = self._found.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise self.error(key, f"must be a whole number from {low} on{_not(key, self._found)}")
        return value

    def number(self, key: str, *, low: float) -> float:
        value = self._found.get(key)
        fits = (
            isinstance(value, int | float) and not isinstance(value, bool) and low <= value < 1e12
        )
        if not fits:
            raise self.error(key, f"must be a number from {low:g} on{_not(key, self._found)}")
        assert isinstance(value, int | float)
        return value

    def list_of(self, key: str, kind: type, example: str) -> list[Any]:
        value = self._found.get(key)
        # bool is an int to Python, and to nobody else.
        if not isinstance(value, list) or any(type(item) is not kind for item in value):
            raise self.error(key, f"must be a list such as {example}{_not(key, self._found)}")
        return value

    def table(self, key: str, *, needed: bool = True) -> "Section":
        path = ".".join(part for part in (self.path, key) if part)
        value = self._found.get(key)
        if value is None and not needed:
            return Section(self.file, path, {})
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, [{path}]{_not(key, self._found)}")
        return Section(self.file, path, value)


def _not(key: str, found: Mapping[str, Any]) -> str:
    return f", not {found[key]!r}" if key in found else "; it is missing"


# What holds for a topology as a whole, beyond what each key must look like.


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
    owners: dict[ShardId, str] = {}
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


# From the text of a topology's file to a topology.

#: Names become directories, host names and prefixes of queues.
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_ADDRESS = re.compile(r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+)):(?P<port>[0-9]{1,5})")

#: What hosts on one machine share lies beside their data directories, which have their names.
RESERVED = frozenset({"spool", "secret", "members"})

#: Before the address of a gateway that speaks TLS.
_TLS = "https://"

#: The gateway's limits, with the least that makes sense. An idle time of 0 means never.
LIMITS: Mapping[str, float] = {
    "expiry": 1,
    "idle": 0,
    "max_clients": 1,
    "max_connections": 1,
    "max_batch_bytes": 1,
    "header_seconds": 0.1,
    "body_seconds": 0.1,
    "room_seconds": 0,
}
_WHOLE = frozenset({"expiry", "idle", "max_clients", "max_connections", "max_batch_bytes"})


def parse_topology(
    text: str, file: str, datasets: Mapping[str, Dataset], broken: Mapping[str, str] | None = None
) -> Topology:
    """`file` is for the errors; `datasets` are all that there are, `broken` why others are not."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    top = Section(file, "", found)
    top.allow("name", "datasets", "queues", "gateway", "hosts")
    hosts = top.table("hosts")
    wanted = _datasets(top, datasets, broken or {})
    stages = {stage.name for name in wanted for stage in datasets[name].stages}
    topology = Topology(
        name=_name(top, "name", top.text("name", "three")),
        datasets=wanted,
        queues=_queues(top.table("queues", needed=False)),
        hosts={name: _host(hosts, name, stages) for name in hosts.keys()},  # noqa: SIM118
        limits=_limits(top.table("gateway", needed=False)),
        names=_names(top.table("gateway", needed=False)),
    )
    if "datasets" not in top:
        topology = topology.with_stages(stages)
    check(topology, file, stages)
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


def _name(section: Section, key: str, name: str) -> str:
    if not NAME.fullmatch(name):
        raise section.error(
            key, f"{name!r} is not a name: use up to 32 lower-case letters, digits and hyphens"
        )
    return name


def _datasets(
    top: Section, known: Mapping[str, Dataset], broken: Mapping[str, str]
) -> tuple[str, ...]:
    if "datasets" not in top:
        return tuple(known)
    wanted = top.list_of("datasets", str, json.dumps([next(iter(known))]))
    for name in wanted:
        if name in broken and name not in known:
            raise top.error("datasets", f"{name!r} cannot be used: {broken[name]}")
        if name not in known:
            raise top.error("datasets", f"there is no data set {name!r}; {nearest(name, known)}")
    if not wanted or len(wanted) != len(set(wanted)):
        raise top.error("datasets", "must name at least one data set, and none twice")
    return tuple(wanted)


def _queues(section: Section) -> Queues:
    section.allow("kind", "url")
    kind = section.text("kind", "spool") if "kind" in section else "spool"
    if kind == QueuesKind.SPOOL:
        if "url" in section:
            raise section.error("url", "a spool has none; remove it, or set kind = 'rabbitmq'")
        return Queues(QueuesKind.SPOOL)
    if kind != QueuesKind.RABBITMQ:
        raise section.error("kind", f"must be 'spool' or 'rabbitmq', not {kind!r}")
    return Queues(QueuesKind.RABBITMQ, _broker_url(section))


def _broker_url(section: Section) -> str:
    url = section.text("url", "amqp://127.0.0.1:5672/")
    example = "must look like amqp://127.0.0.1:5672/"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("amqp", "amqps") and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    # The value is not repeated: it may hold a password.
    if not usable:
        raise section.error("url", example)
    if parts.username or parts.password:
        raise section.error(
            "url", "holds credentials; take them out and set BOOKSAN_QUEUES to the whole address"
        )
    return url


def _limits(section: Section) -> dict[str, float]:
    section.allow(*LIMITS, "hosts")
    limits: dict[str, float] = {}
    for name, low in LIMITS.items():
        if name in section:
            whole = name in _WHOLE
            limits[name] = section.whole(name, int(low)) if whole else section.number(name, low=low)
    return limits


def _names(section: Section) -> tuple[str, ...]:
    if "hosts" not in section:
        return ()
    return tuple(section.list_of("hosts", str, '["books.example.org"]'))


def _host(hosts: Section, name: str, stages: set[str]) -> HostPlan:
    _name(hosts, name, name)
    if name in RESERVED:
        raise hosts.error(name, "this name is kept for what the hosts share; use another")
    section = hosts.table(name)
    section.allow("id", "address", "gateway", "listen", "stages")
    gateway = _address(section, "gateway", "127.0.0.1:7301")
    return HostPlan(
        name=name,
        id=section.whole("id", 1),
        address=_address(section, "address", "127.0.0.1:7401"),
        gateway=gateway,
        listen=_address(section, "listen", "0.0.0.0:7300") if "listen" in section else gateway,
        stages=_stages(section.table("stages"), stages),
        tls=section.text("gateway", "127.0.0.1:7301").startswith(_TLS),
    )


def _address(section: Section, key: str, example: str) -> Address:
    text = section.text(key, example)
    if key == "gateway":
        text = text.removeprefix(_TLS)
    try:
        address = parse_address(text)
    except ValueError as error:
        raise section.error(key, str(error)) from None
    if not address.port:
        raise section.error(key, "needs a port from 1 on: the other hosts must know it")
    return address


def _stages(section: Section, known: set[str]) -> dict[str, tuple[int, ...]]:
    stages: dict[str, tuple[int, ...]] = {}
    for stage in section.keys():  # noqa: SIM118 - a section is no mapping
        if stage not in known:
            raise section.error(stage, f"there is no such stage; {nearest(stage, known)}")
        shards = section.list_of(stage, int, "[0, 1]")
        if not shards or min(shards) < 0:
            raise section.error(stage, "must list shard numbers from 0 on, such as [0, 1]")
        if len(shards) != len(set(shards)):
            raise section.error(stage, f"names a shard twice: {shards}")
        stages[stage] = tuple(sorted(shards))
    if not stages:
        raise section.error("", "a host needs at least one shard, such as q3-join = [0]")
    return stages


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
