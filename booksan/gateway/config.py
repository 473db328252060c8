"""What gateway.json asks for, and what gateway-address.json tells."""

import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from booksan.errors import BooksanError, UsageError
from booksan.host.status import write_json
from booksan.spec import HOME

GATEWAY_FILE = "gateway.json"
ADDRESS_FILE = "gateway-address.json"


class Address(NamedTuple):
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            # A name says nothing about who can reach it.
            return False


@dataclass(frozen=True)
class GatewayConfig:
    #: The host's name.
    host: str
    #: "127.0.0.1:7300"; port 0 for any free one.
    listen: str
    #: The topology's name.
    topology: str
    #: Shards of each stage over the whole topology.
    shards: Mapping[str, int]
    #: Shard of the stage `results` -> URL of the gateway on its host; "" for this one.
    homes: Mapping[int, str] = field(default_factory=lambda: {0: ""})
    #: Name -> URL of the gateways of all other hosts.
    gateways: Mapping[str, str] = field(default_factory=dict)
    #: Host and port at which the other gateways reach it: their calls are signed for this one
    #: place. If it is not known, for the one that stands in their request.
    reached: str = ""
    #: Names by which clients call it, beside addresses, `localhost` and those of the cluster.
    hosts: tuple[str, ...] = ()
    #: Seconds from the creation of a client to its hard end.
    expiry: int = 7 * 24 * 3600
    #: Seconds without an upload after which an unfinished upload is given up; 0 for never.
    idle: int = 24 * 3600
    #: Unfinished clients whose home is on this host.
    max_clients: int = 64
    max_connections: int = 1000
    #: Bytes of a batch, after decompression.
    max_batch_bytes: int = 8 * 1024 * 1024
    #: Seconds in which the head of a request must have come.
    header_seconds: float = 10
    #: Seconds in which the body of a request must have come.
    body_seconds: float = 60
    #: Seconds that full queues may hold a batch back.
    room_seconds: float = 25

    @property
    def address(self) -> Address:
        return parse_address(self.listen)


def parse_address(listen: str) -> Address:
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f'"listen" must look like 127.0.0.1:7300, not {listen!r}')
    return Address(host, int(port))


def write_gateway_config(data_dir: Path, config: GatewayConfig) -> None:
    path = data_dir / GATEWAY_FILE
    values = asdict(config) | {"homes": {str(shard): url for shard, url in config.homes.items()}}
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        write_json(path, values)
    except OSError as error:
        raise BooksanError(f"{path} cannot be written: {error.strerror}") from None


def read_gateway_config(data_dir: Path) -> GatewayConfig:
    """Read and check gateway.json."""
    path = data_dir / GATEWAY_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    try:
        return _config(found)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _config(found: object) -> GatewayConfig:
    if not isinstance(found, dict):
        raise UsageError("it must be an object")
    known = {item.name: item for item in fields(GatewayConfig)}
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise UsageError(f"it has no {unknown[0]!r}; it has {', '.join(known)}")
    for name in ("host", "listen", "topology", "shards"):
        if name not in found:
            raise UsageError(f'"{name}" is missing')
    config = GatewayConfig(**{name: _checked(name, value) for name, value in found.items()})
    parse_address(config.listen)
    if HOME not in config.shards:
        raise UsageError(f'"shards" must name the stage {HOME!r}')
    missing = [shard for shard in range(config.shards[HOME]) if shard not in config.homes]
    if missing:
        raise UsageError(f'"homes" does not say where {HOME}.{missing[0]} is')
    return config


def _checked(name: str, value: Any) -> Any:
    if name in ("host", "listen", "topology", "reached"):
        return _text(name, value)
    if name == "hosts":
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(f'"{name}" must be a list of names, not {value!r}')
        return tuple(value)
    if name in ("shards", "homes", "gateways"):
        return _MAPS[name](name, value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise UsageError(f'"{name}" must be a number from 0 on, not {value!r}')
    if name in ("expiry", "idle", "max_clients", "max_connections", "max_batch_bytes"):
        return int(value)
    return float(value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f'"{name}" must be text, not {value!r}')
    return value


def _shards(name: str, value: object) -> dict[str, int]:
    if not isinstance(value, dict) or not all(
        type(count) is int and count > 0 for count in value.values()
    ):
        raise UsageError(f'"{name}" must give each stage its number of shards')
    return value


def _homes(name: str, value: object) -> dict[int, str]:
    if not isinstance(value, dict) or not all(
        shard.isdecimal() and _is_url(url, empty=True) for shard, url in value.items()
    ):
        raise UsageError(f'"{name}" must give each shard of {HOME} a URL, or "" for this host')
    return {int(shard): url.rstrip("/") for shard, url in value.items()}


def _gateways(name: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(_is_url(url) for url in value.values()):
        raise UsageError(f'"{name}" must give each other host the URL of its gateway')
    return {host: url.rstrip("/") for host, url in value.items()}


def _is_url(value: object, *, empty: bool = False) -> bool:
    return isinstance(value, str) and (
        value.startswith(("http://", "https://")) or (empty and value == "")
    )


_MAPS: dict[str, Callable[[str, object], dict[Any, Any]]] = {
    "shards": _shards,
    "homes": _homes,
    "gateways": _gateways,
}


def write_address(data_dir: Path, url: str, pid: int) -> None:
    write_json(data_dir / ADDRESS_FILE, {"url": url, "pid": pid}, lasting=False)


def read_address(data_dir: Path) -> dict[str, Any] | None:
    """What the gateway wrote when it listened; None if nothing readable is there."""
    try:
        found = json.loads((data_dir / ADDRESS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("url"), str) else None
