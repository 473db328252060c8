"""What of a cluster is running."""

from pathlib import Path
from typing import Any

from booksan.cluster import broker
from booksan.cluster.lengths import queue_lengths
from booksan.cluster.record import BrokerRecord, ClusterRecord, HostRecord, read_record
from booksan.cluster.start import OPERATOR_TOKEN_FILE
from booksan.supervisor.states import HostState
from booksan.supervisor.status import HostStatus, read_status
from booksan.transport.address import masked

#: The report of a supervisor that was killed says it still runs.
DEAD = "dead"


def cluster_status(directory: Path, record: ClusterRecord) -> dict[str, Any]:
    """As `status --json` prints it."""
    hosts = [_host(name, host) for name, host in record.hosts.items()]
    kept = _broker(record.broker)
    running = all(host["state"] == HostState.RUNNING for host in hosts)
    if record.broker is not None:
        running = running and kept is not None
    return {
        "name": record.name,
        "running": running,
        **leader_of(hosts),
        "queues": record.queues,
        "broker": kept,
        "hosts": hosts,
        "gateways": [host["gateway"] for host in hosts],
        "operator_token_file": str(directory / OPERATOR_TOKEN_FILE),
    }


def full_status(directory: Path) -> dict[str, Any] | None:
    """With the length of every worker's queue; None if there is no cluster."""
    record = read_record(directory)
    if record is None:
        return None
    found = cluster_status(directory, record)
    workers = [worker for host in found["hosts"] for worker in host["workers"]]
    shards = [worker["name"] for worker in workers if not worker["name"].startswith("gateway.")]
    lengths = queue_lengths(record, shards)
    for worker in workers:
        worker["queue"] = lengths.get(worker["name"])
    return found


def _host(name: str, record: HostRecord) -> dict[str, Any]:
    process = record.supervisor()
    report = read_status(Path(record.data_dir))
    mine = report if process and report and report.pid == process.pid else None
    return {
        "name": name,
        "id": record.id,
        "pid": process.pid if process else None,
        "state": _state(mine, report, alive=process is not None),
        "error": report.error if report else None,
        "gateway": record.gateway,
        "data_dir": record.data_dir,
        "follows": mine.leader if mine else None,
        "term": mine.term if mine else None,
        "workers": workers_of(mine),
    }


def leader_of(hosts: list[dict[str, Any]]) -> dict[str, Any]:
    """The one that says of itself that it leads; the highest term if two do."""
    leading = [host for host in hosts if host["follows"] == host["name"]]
    found = max(leading, key=lambda host: _term(host["term"]), default=None)
    return {
        "leader": found["name"] if found else None,
        "term": found["term"] if found else None,
    }


def _term(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "0").split("."))


def _state(mine: HostStatus | None, report: HostStatus | None, *, alive: bool) -> str:
    if alive:
        return mine.state if mine else HostState.STARTING
    if report is None:
        return HostState.STOPPED
    return report.state if report.state in (HostState.STOPPED, HostState.FAILED) else DEAD


def workers_of(mine: HostStatus | None) -> list[dict[str, Any]]:
    if mine is None:
        return []
    return [
        {
            "name": one.name,
            "pid": one.pid,
            "state": one.state,
            "restarts": one.restarts,
            "since": one.since,
            "memory": one.memory,
            "cpu": one.cpu,
        }
        for one in mine.workers
    ]


def _broker(record: BrokerRecord | None) -> dict[str, Any] | None:
    keeper = broker.keeper_of(record)
    if record is None or keeper is None:
        return None
    found = broker.broker_status(record)
    return {
        "url": masked(str(found["url"])) if found.get("url") else None,
        "pid": found.get("pid"),
        "keeper": keeper.pid,
        "restarts": found.get("restarts", 0),
    }
