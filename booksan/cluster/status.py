"""What of a cluster is running, as data and on a terminal."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console

from booksan.cluster import broker
from booksan.cluster.depths import queue_lengths
from booksan.cluster.paths import BrokerRecord, ClusterRecord, HostRecord, read_record
from booksan.cluster.prepare import known_queues
from booksan.cluster.registry import running_members
from booksan.cluster.start import OPERATOR_TOKEN_FILE
from booksan.host.status import HostState, HostStatus, WorkerState, read_status
from booksan.transport import masked
from booksan_common.terminal import (
    Column,
    FittedTable,
    Painting,
    PatientConsole,
    Screenful,
    duration,
    is_live,
    shown,
)

#: The report of a supervisor that was killed says it still runs.
DEAD = "dead"


def cluster_status(directory: Path, record: ClusterRecord) -> dict[str, Any]:
    """As `status --json` prints it."""
    hosts = [_host(name, host) for name, host in record.hosts.items()]
    kept = _broker(record.broker)
    token = directory / OPERATOR_TOKEN_FILE
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
        "gateways": [host["gateway"] for host in hosts if host["gateway"]],
        "operator_token_file": str(token) if token.exists() else None,
    }


def find_record(directory: Path) -> ClusterRecord | None:
    """What `booksan cluster` started there; or else the hosts that were started one by one."""
    record = read_record(directory)
    members = running_members(directory) if record is None else {}
    if not members:
        return record
    queues = [found for one in members.values() if (found := known_queues(one.data_dir))]
    hosts = {
        name: HostRecord(
            one.plan.id,
            str(one.plan.address),
            one.plan.url if one.gateway else "",
            str(one.data_dir),
        )
        for name, one in members.items()
    }
    return ClusterRecord(directory.name, {}, queues[0] if queues else "", moved=False, hosts=hosts)


def full_status(directory: Path) -> dict[str, Any] | None:
    """With the length of every worker's queue; None if there is no cluster."""
    record = find_record(directory)
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


# A cluster on the terminal.

#: Seconds between two looks while it is watched.
REFRESH = 1.0


def show_cluster(console: Console, status: dict[str, Any]) -> None:
    console.print(_hosts(status))
    console.print(_workers(status))
    for line in _lines(status):
        console.print(shown(line), soft_wrap=True)


def watch_cluster(look: Callable[[], dict[str, Any] | None]) -> None:
    """Until Ctrl-C, or until there is nothing to watch any more.

    A terminal shows it all, a file gets a line for each change.
    """
    console = PatientConsole()
    with ExitStack() as stack:
        live = None
        if is_live(console):
            live = stack.enter_context(Painting(console, auto_refresh=False))
        told = ""
        while (status := look()) is not None:
            if live is not None:
                live.update(_picture(status), refresh=True)
            elif (line := _in_a_line(status)) != told:
                told = line
                console.print(shown(f"{time.strftime('%H:%M:%S')} {line}"), soft_wrap=True)
            time.sleep(REFRESH)


def _picture(status: dict[str, Any]) -> Screenful:
    """What does not run is seen first, however short the terminal is."""
    lines = map(shown, _lines(status))
    return Screenful(_hosts(status), *lines, _workers(status))


def _in_a_line(status: dict[str, Any]) -> str:
    hosts = [f"{host['name']} {host['state']}" for host in status["hosts"]]
    workers = [worker for host in status["hosts"] for worker in host["workers"]]
    running = sum(worker["state"] == WorkerState.RUNNING for worker in workers)
    leader = f"{status['leader']} leads" if status["leader"] else "nobody leads"
    return f"{', '.join(hosts)}; {leader}; {running} of {len(workers)} workers run"


def _hosts(status: dict[str, Any]) -> FittedTable:
    table = FittedTable(
        Column("host"),
        Column("id", 4, right=True),
        Column("state"),
        Column("leads", 1),
        Column("pid", 3, right=True),
        Column("gateway", 2),
        look=box.SIMPLE_HEAD,
    )
    for host in status["hosts"]:
        leads = f"term {status['term']}" if host["name"] == status["leader"] else ""
        cells = (host["name"], host["id"], host["state"], leads, host["pid"] or "-")
        table.add_row(*cells, host["gateway"])
    return table


def _workers(status: dict[str, Any]) -> FittedTable:
    table = FittedTable(
        Column("host", 2),
        Column("worker"),
        Column("state"),
        Column("pid", 4, right=True),
        Column("up", 3, right=True),
        Column("restarts", 1, right=True),
        Column("memory", 5, right=True),
        Column("CPU s", 6, right=True),
        Column("queue", 2, right=True),
        look=box.SIMPLE_HEAD,
    )
    for host in status["hosts"]:
        for worker in host["workers"]:
            cells = (host["name"], worker["name"], worker["state"], worker["pid"] or "-")
            table.add_row(*cells, *_figures(worker), rank=_rank(worker))
    return table


def _rank(worker: dict[str, Any]) -> int:
    """What does not run comes first, then what has work waiting."""
    if worker["state"] != WorkerState.RUNNING:
        return 0
    return 1 if worker.get("queue") else 2


def _figures(worker: dict[str, Any]) -> tuple[str, ...]:
    up = duration(time.time() - worker["since"]) if worker["state"] == "running" else "-"
    memory = "-" if worker["memory"] is None else f"{worker['memory'] / 1e6:.0f} MB"
    cpu = "-" if worker["cpu"] is None else f"{worker['cpu']:.1f}"
    queue = "-" if worker.get("queue") is None else str(worker["queue"])
    return up, str(worker["restarts"]), memory, cpu, queue


def _lines(status: dict[str, Any]) -> list[str]:
    lines = [f"queues: {status['queues']}"]
    kept = status["broker"]
    if kept is not None:
        how = f"keeper {kept['keeper']}" if kept["keeper"] else kept["state"]
        pid = kept["pid"] or "-"
        lines.append(f"broker: {kept['url']}, pid {pid}, {how}, {kept['restarts']} restarts")
    lines += [f"{host['name']}: {host['error']}" for host in status["hosts"] if host["error"]]
    return lines
