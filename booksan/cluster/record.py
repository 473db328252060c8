"""cluster.json: what `booksan cluster` started, and with which ports."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from booksan.cluster.processes import ProcessId, is_alive, supervisor_of
from booksan.errors import UsageError
from booksan.files import write_atomically

CLUSTER_FILE = "cluster.json"


@dataclass
class HostRecord:
    id: int
    #: UDP of the supervisor.
    address: str
    #: URL of the gateway.
    gateway: str
    data_dir: str
    process: ProcessId | None = None

    def supervisor(self) -> ProcessId | None:
        """The one that runs now: as started, or by the lock if another has taken its place."""
        holder = supervisor_of(Path(self.data_dir))
        if holder is not None:
            return holder
        return self.process if is_alive(self.process) else None


@dataclass
class BrokerRecord:
    directory: str
    port: int
    keeper: ProcessId | None = None


@dataclass
class ClusterRecord:
    name: str
    #: What the hosts agree on, for comparing.
    topology: dict[str, Any]
    #: The address of the queues without its password.
    queues: str
    #: The ports are not those of the topology's file.
    moved: bool
    hosts: dict[str, HostRecord]
    broker: BrokerRecord | None = None
    #: By host: the ports of the supervisor and of the gateway.
    ports: dict[str, tuple[int, int]] = field(default_factory=dict)


def write_record(directory: Path, record: ClusterRecord) -> None:
    write_atomically(directory / CLUSTER_FILE, json.dumps(asdict(record), indent=2).encode())


def read_record(directory: Path) -> ClusterRecord | None:
    """None if there is no cluster."""
    path = directory / CLUSTER_FILE
    try:
        found = json.loads(path.read_text("utf-8"))
        hosts = {name: HostRecord(**_process(one)) for name, one in found.pop("hosts").items()}
        broker = found.pop("broker")
        ports = {name: (one[0], one[1]) for name, one in found.pop("ports").items()}
        known = BrokerRecord(**_process(broker, "keeper")) if broker else None
        return ClusterRecord(**found, hosts=hosts, broker=known, ports=ports)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} cannot be used: {error}; remove the directory") from None


def _process(found: dict[str, Any], key: str = "process") -> dict[str, Any]:
    one = found[key]
    return {**found, key: ProcessId(*one) if one else None}
