"""The clients that the shards in a data directory still work for."""

import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from booksan.errors import MessageError
from booksan.spec import spec_from_json
from booksan.state.database import open_reader
from booksan.topology.model import ShardName


class Unfinished(NamedTuple):
    client: str
    shard: ShardName


def unfinished_clients(data_dir: Path) -> list[Unfinished]:
    """All but those that are gone or past their expiry; what cannot be read counts too."""
    now = time.time()
    found = []
    for path in sorted(data_dir.glob("clients/*/*.db")):
        stage, _, number = path.stem.rpartition("-")
        if not stage or not number.isdecimal():
            continue
        client, shard = path.parent.name, ShardName(stage, int(number))
        if _is_needed(path, now) and not _is_gone(data_dir, client, shard):
            found.append(Unfinished(client, shard))
    return found


def _is_needed(path: Path, now: float) -> bool:
    try:
        text = _value(path, "meta", "SELECT value FROM meta WHERE key = 'spec'")
        # A database that was never completely made begins anew with the message that comes again.
        return text is not None and spec_from_json(text).expires > now
    except (sqlite3.Error, MessageError):
        return path.exists()


def _is_gone(data_dir: Path, client: str, shard: ShardName) -> bool:
    path = data_dir / "shards" / f"{shard.stage}-{shard.shard}.db"
    sql = "SELECT how FROM tombstones WHERE client = ?"
    try:
        return path.exists() and _value(path, "tombstones", sql, client) is not None
    except sqlite3.Error:
        return False


def _value(path: Path, table: str, sql: str, *values: str) -> str | None:
    db = open_reader(path)
    try:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            return None
        row = db.execute(sql, values).fetchone()
        return str(row[0]) if row else None
    finally:
        db.close()
