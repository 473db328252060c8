"""From the text of a topology's file to a topology."""

import json
import re
import tomllib
from collections.abc import Mapping
from urllib.parse import urlsplit

from booksan.errors import UsageError
from booksan.stages.graph import Dataset
from booksan.topology.check import check
from booksan.topology.model import Address, HostPlan, Queues, QueuesKind, Topology
from booksan.topology.section import Section, nearest

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


def parse_topology(text: str, file: str, datasets: Mapping[str, Dataset]) -> Topology:
    """`file` is for the errors; `datasets` are all that there are."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    top = Section(file, "", found)
    top.allow("name", "datasets", "queues", "gateway", "hosts")
    hosts = top.table("hosts")
    wanted = _datasets(top, datasets)
    stages = {stage.name for name in wanted for stage in datasets[name].stages}
    topology = Topology(
        name=_name(top, "name", top.text("name", "three")),
        datasets=wanted,
        queues=_queues(top.table("queues", needed=False)),
        hosts={name: _host(hosts, name, stages) for name in hosts.keys()},  # noqa: SIM118
        limits=_limits(top.table("gateway", needed=False)),
        names=_names(top.table("gateway", needed=False)),
    )
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


def _datasets(top: Section, known: Mapping[str, Dataset]) -> tuple[str, ...]:
    if "datasets" not in top:
        return tuple(known)
    wanted = top.list_of("datasets", str, json.dumps([next(iter(known))]))
    for name in wanted:
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
