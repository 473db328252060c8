"""A cluster on the terminal."""

import time
from collections.abc import Callable
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from booksan_client.terminal import PatientConsole, plain, shown

#: Seconds between two looks while it is watched.
REFRESH = 1.0


def show_cluster(console: Console, status: dict[str, Any]) -> None:
    console.print(_tables(status))
    for line in _lines(status):
        console.print(shown(line), soft_wrap=True)


def watch_cluster(look: Callable[[], dict[str, Any] | None]) -> None:
    """Until Ctrl-C, or until there is nothing to watch any more."""
    with Live(console=PatientConsole(), auto_refresh=False) as live:
        while (status := look()) is not None:
            live.update(Group(_tables(status), *map(shown, _lines(status))), refresh=True)
            time.sleep(REFRESH)


def _tables(status: dict[str, Any]) -> RenderableType:
    return Group(_hosts(status), _workers(status))


def _hosts(status: dict[str, Any]) -> Table:
    table = Table("host", "id", "state", "leads", "pid", "gateway", box=box.SIMPLE_HEAD)
    for host in status["hosts"]:
        leads = f"term {status['term']}" if host["name"] == status["leader"] else ""
        cells = (host["name"], host["id"], host["state"], leads, host["pid"] or "-")
        table.add_row(*map(plain, (*cells, host["gateway"])))
    return table


def _workers(status: dict[str, Any]) -> Table:
    table = Table("host", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    # Names are never cut: they are what one copies.
    table.add_column("worker", no_wrap=True)
    for name in ("state", "pid"):
        table.add_column(name)
    for name in ("up", "restarts", "memory", "CPU s", "queue"):
        table.add_column(name, justify="right")
    for host in status["hosts"]:
        for worker in host["workers"]:
            cells = (host["name"], worker["name"], worker["state"], worker["pid"] or "-")
            table.add_row(*map(plain, cells), *_figures(worker))
    return table


def _figures(worker: dict[str, Any]) -> tuple[str, ...]:
    up = _duration(time.time() - worker["since"]) if worker["state"] == "running" else "-"
    memory = "-" if worker["memory"] is None else f"{worker['memory'] / 1e6:.0f} MB"
    cpu = "-" if worker["cpu"] is None else f"{worker['cpu']:.1f}"
    queue = "-" if worker.get("queue") is None else str(worker["queue"])
    return up, str(worker["restarts"]), memory, cpu, queue


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _lines(status: dict[str, Any]) -> list[str]:
    lines = [f"queues: {status['queues']}"]
    kept = status["broker"]
    if kept is not None:
        how = f"keeper {kept['keeper']}" if kept["keeper"] else kept["state"]
        pid = kept["pid"] or "-"
        lines.append(f"broker: {kept['url']}, pid {pid}, {how}, {kept['restarts']} restarts")
    lines += [f"{host['name']}: {host['error']}" for host in status["hosts"] if host["error"]]
    return lines
