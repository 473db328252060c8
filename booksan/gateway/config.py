"""What gateway.json asks for, and what gateway-address.json tells."""

import ipaddress
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, field
from msgspec.structs import replace

from booksan.errors import BooksanError, UsageError
from booksan.host.config import Limits
from booksan.host.status import write_json
from booksan.spec import HOME
from booksan_common.decoding import read_json
from booksan_common.files import NO_ROOM, make_directory

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


_Text = Annotated[str, Meta(description="text")]


class GatewayConfig(Limits, frozen=True, forbid_unknown_fields=True):
    #: The host's name.
    host: _Text
    #: "127.0.0.1:7300"; port 0 for any free one.
    listen: _Text
    #: The topology's name.
    topology: _Text
    #: Of each stage over the whole topology.
    shards: Annotated[
        Mapping[str, Annotated[int, Meta(ge=1)]], Meta(description="each stage's number of shards")
    ]
    #: Shard of the stage `results` -> URL of the gateway on its host; "" for this one.
    homes: Annotated[
        Mapping[int, Annotated[str, Meta(pattern=r"\A(https?://|\Z)")]],
        Meta(description=f'a URL for each shard of {HOME}, or "" for this host'),
    ] = field(default_factory=lambda: {0: ""})
    gateways: Annotated[
        Mapping[str, Annotated[str, Meta(pattern=r"\Ahttps?://")]],
        Meta(description="the URL of the gateway of each other host"),
    ] = {}
    #: Host and port at which the other gateways reach it: their calls are signed for this one
    #: place. If it is not known, for the one that stands in their request.
    reached: _Text = ""
    #: Names by which clients call it, beside addresses, `localhost` and those of the cluster.
    hosts: Annotated[tuple[str, ...], Meta(description="a list of names")] = ()

    @property
    def address(self) -> Address:
        return parse_address(self.listen)


def parse_address(listen: str) -> Address:
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"listen: must look like 127.0.0.1:7300, not {listen!r}")
    return Address(host, int(port))


def write_gateway_config(data_dir: Path, config: GatewayConfig) -> None:
    path = data_dir / GATEWAY_FILE
    try:
        make_directory(data_dir)
        write_json(path, config)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise BooksanError(f"{path} cannot be written: {error.strerror}") from None


def read_gateway_config(data_dir: Path) -> GatewayConfig:
    """Read and check gateway.json."""
    path = data_dir / GATEWAY_FILE
    config = read_json(path, GatewayConfig)
    try:
        _check(config)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    homes = {shard: url.rstrip("/") for shard, url in config.homes.items()}
    gateways = {name: url.rstrip("/") for name, url in config.gateways.items()}
    return replace(config, homes=homes, gateways=gateways)


def _check(config: GatewayConfig) -> None:
    """What no type can say."""
    parse_address(config.listen)
    if HOME not in config.shards:
        raise UsageError(f"shards: must name the stage {HOME!r}")
    missing = [shard for shard in range(config.shards[HOME]) if shard not in config.homes]
    if missing:
        raise UsageError(f"homes: does not say where {HOME}.{missing[0]} is")


def write_address(data_dir: Path, url: str, pid: int) -> None:
    write_json(data_dir / ADDRESS_FILE, {"url": url, "pid": pid}, lasting=False)


def read_address(data_dir: Path) -> dict[str, Any] | None:
    """What the gateway wrote when it listened; None if nothing readable is there."""
    try:
        found = json.loads((data_dir / ADDRESS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("url"), str) else None
