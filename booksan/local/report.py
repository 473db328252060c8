"""`booksan inspect`: what unfinished runs are made of."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from booksan.errors import UsageError
from booksan.inspection import clients, progress, sizes
from booksan.local.workspace import state_home


def data_directories(data_dir: Path | None) -> list[Path]:
    """The one that was named, or all unfinished runs in the user's state directory."""
    if data_dir is None:
        return sorted(path.parent for path in (state_home() / "runs").glob("*/run.json"))
    if not (data_dir / "clients").is_dir():
        raise UsageError(f"{data_dir} is not a data directory of booksan: it has no clients")
    return [data_dir]


def inspect_command(data_dir: Path | None, *, as_json: bool) -> None:
    found: list[dict[str, Any]] = [
        {
            "data_dir": str(root),
            "client": client,
            "progress": [asdict(stream) for stream in progress(root, client)],
            "databases": [asdict(size) for size in sizes(root, client)],
        }
        for root in data_directories(data_dir)
        for client in clients(root)
    ]
    if as_json:
        json.dump({"clients": found}, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    console = Console()
    if not found:
        console.print("no unfinished runs")
    for client in found:
        _show(console, client)


def _show(console: Console, client: dict[str, Any]) -> None:
    console.print(Text(f"{client['client']} in {client['data_dir']}"), soft_wrap=True)
    streams = Table("stage", "shard", "from", "batches", "of", "rows", "MB", "phase", "outbox")
    for row in client["progress"]:
        of = "?" if row["of_batches"] is None else str(row["of_batches"])
        size = f"{row['bytes'] / 1e6:,.1f}"
        moved = (row["batches"], of, f"{row['rows']:,}", size)
        cells = (row["shard"], row["sender"], *moved, row["phase"], row["outbox"])
        streams.add_row(row["stage"], *map(str, cells))
    console.print(streams)
    databases = Table("database", "kB", "rows")
    for row in client["databases"]:
        counts = ", ".join(f"{name} {count:,}" for name, count in row["rows"].items() if count)
        databases.add_row(row["name"], f"{row['bytes'] / 1e3:,.0f}", counts)
    console.print(databases)
