"""The host of one run: its workers, and a gateway for its one client alone."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from booksan.gateway.config import ADDRESS_FILE, GatewayConfig, read_address, write_gateway_config
from booksan.supervisor.config import HostConfig, WorkerSpec, write_config
from booksan.supervisor.handle import Host
from booksan.transport.address import QUEUES_VARIABLE
from booksan.worker.settings import WARM_UP
from booksan_client.caller import Caller, Limits
from booksan_client.credentials import OPERATOR_TOKEN, TOKEN, authorization
from booksan_client.files import write_private
from booksan_client.servers import Servers

GATEWAY = WorkerSpec("gateway", 0, entry="booksan.gateway.main:run")

_TOKEN_FILE = "token"

#: The gateway is on this machine, and its supervisor brings it back, so pauses are short; it may
#: take long when the queues are. A full disk is watched from here as well.
_LIMITS = Limits(patience=600.0, no_space=5.0, internal=10.0, most_pause=0.5)


def prepared_host(root: Path, shards: Mapping[str, int], expiry: int) -> Host:
    """Writes what a supervisor in this directory will run; it is not started yet."""
    workers = [
        WorkerSpec(stage, shard) for stage, count in shards.items() for shard in range(count)
    ]
    # The gateway takes the longest to load, so it goes first.
    write_config(root, HostConfig((GATEWAY, *workers)))
    write_gateway_config(
        root,
        GatewayConfig(
            host="local",
            listen="127.0.0.1:0",
            topology="run",
            shards=dict(shards),
            homes=dict.fromkeys(range(shards["results"]), ""),
            expiry=expiry,
            idle=0,
            max_clients=1,
        ),
    )
    # Another program may have that port by now.
    (root / ADDRESS_FILE).unlink(missing_ok=True)
    env = {
        "POLARS_MAX_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        WARM_UP: "1",
        # Whatever the user's own servers need is not for this one.
        TOKEN: _token(root),
        OPERATOR_TOKEN: "",
        QUEUES_VARIABLE: f"spool:{quote(str(root))}",
    }
    return Host(root, env)


def caller_of(root: Path) -> Caller:
    """Finds the gateway wherever it listens after a restart."""

    def found() -> list[str]:
        address = read_address(root)
        return [address["url"]] if address else []

    servers = Servers(found, first_pause=0.02, most_pause=0.5)
    return Caller(servers, authorization(_token(root)), limits=_LIMITS)


def _token(root: Path) -> str:
    path = root / _TOKEN_FILE
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text("ascii")
