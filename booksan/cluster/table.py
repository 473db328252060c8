"""A cluster on the terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def show_cluster(console: Console, status: dict[str, Any]) -> None:
    table = Table("host", "id", "state", "pid", "gateway", "workers", "restarts")
    for host in status["hosts"]:
        workers = host["workers"]
        up = sum(worker["state"] == "running" for worker in workers)
        restarts = sum(worker["restarts"] for worker in workers)
        cells = (host["name"], host["id"], host["state"], host["pid"] or "-", host["gateway"])
        table.add_row(*map(str, (*cells, f"{up} of {len(workers)}", restarts)))
    console.print(table)
    for line in _lines(status):
        console.print(Text(line), soft_wrap=True)


def _lines(status: dict[str, Any]) -> list[str]:
    lines = [f"queues: {status['queues']}"]
    kept = status["broker"]
    if kept is not None:
        lines.append(
            f"broker: {kept['url']}, pid {kept['pid']}, keeper {kept['keeper']}, "
            f"{kept['restarts']} restarts"
        )
    lines += [f"{host['name']}: {host['error']}" for host in status["hosts"] if host["error"]]
    return lines
