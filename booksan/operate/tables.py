"""Letters and clients on a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from booksan.operate.letters import Letter
from booksan_client.terminal import plain, shown

#: Characters of an id that tell letters apart well enough.
SHORT = 12


def show_letters(console: Console, letters: Sequence[Letter]) -> None:
    if not letters:
        console.print("no dead letters")
        return
    table = Table("id", "time", "shard", "client", "from", "error")
    for one in letters:
        sender = f"{one.sender} {one.kind} {one.seq}" if one.sender else "?"
        cells = (one.id[:SHORT], one.when, one.queue, one.client or "?", sender, one.error)
        table.add_row(*map(shown, cells))
    console.print(table)


def show_letter(console: Console, letter: Letter, contents: str) -> None:
    for name, value in letter.as_dict().items():
        found = letter.when if name == "time" else value
        console.print(shown(f"{name + ':':<10} {found}"), soft_wrap=True)
    for line in contents.splitlines():
        console.print(shown(line), soft_wrap=True)


def show_clients(console: Console, found: Sequence[dict[str, Any]]) -> None:
    if not found:
        console.print("no unfinished clients")
    for client in found:
        _show_client(console, client)


def _show_client(console: Console, client: dict[str, Any]) -> None:
    console.print(shown(f"{client['client']} in {client['data_dir']}"), soft_wrap=True)
    for reason in client["failures"]:
        console.print(shown(f"failed: {reason}", "red"), soft_wrap=True)
    for letter in client["letters"]:
        line = f"dead letter {letter['id'][:SHORT]} at {letter['stage']}.{letter['shard']}: "
        console.print(shown(line + letter["error"], "red"), soft_wrap=True)
    console.print(_streams(client["progress"]))
    databases = Table("database", "kB", "rows")
    for row in client["databases"]:
        counts = ", ".join(f"{name} {count:,}" for name, count in row["rows"].items() if count)
        databases.add_row(plain(row["name"]), f"{row['bytes'] / 1e3:,.0f}", counts)
    console.print(databases)


def _streams(rows: Sequence[dict[str, Any]]) -> Table:
    names = ("shard", "from", "batches", "of", "missing", "rows", "MB", "phase", "dedup", "outbox")
    table = Table(*names)
    for row in rows:
        of = "?" if row["of_batches"] is None else row["of_batches"]
        cells = (
            f"{row['stage']}.{row['shard']}",
            row["sender"],
            row["batches"],
            of,
            " ".join(map(str, row["missing"])),
            f"{row['rows']:,}",
            f"{row['bytes'] / 1e6:,.1f}",
            row["phase"],
            row["dedup"],
            row["outbox"],
        )
        table.add_row(*map(plain, cells))
    return table
