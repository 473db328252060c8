"""The clients that the shards in a data directory still work for."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from booksan.errors import MessageError
from booksan.spec import HOME, Spec, spec_from_json
from booksan.state.client import ENDED
from booksan.state.database import open_reader
from booksan.topology.model import ShardName


class Unfinished(NamedTuple):
    client: str
    shard: ShardName
    #: What it was begun with; None if its database cannot be read.
    spec: Spec | None = None
    #: Nothing is left to compute: its answers are complete, or passed on, or it has failed.
    computed: bool = False


def unfinished_clients(data_dir: Path) -> list[Unfinished]:
    """All but those that are gone or past their expiry; what cannot be read counts too."""
    now = time.time()
    found = []
    for path in sorted(data_dir.glob("clients/*/*.db")):
        stage, _, number = path.stem.rpartition("-")
        if not stage or not number.isdecimal():
            continue
        one = _held(path, Unfinished(path.parent.name, ShardName(stage, int(number))))
        if one is None or _shard_row(data_dir, one, "tombstones"):
            continue
        if one.spec is None or one.spec.expires > now:
            failed = _shard_row(data_dir, one, "failures")
            found.append(one._replace(computed=one.computed or failed))
    return found


def _held(path: Path, one: Unfinished) -> Unfinished | None:
    """None for a database that was never completely made: it begins anew with the message that
    comes again."""
    try:
        with closing(open_reader(path)) as db:
            if not _has_table(db, "meta"):
                return None
            meta = dict(db.execute("SELECT key, value FROM meta"))
            spec = spec_from_json(meta["spec"])
            return one._replace(spec=spec, computed=_is_computed(db, one.shard.stage, meta))
    except (sqlite3.Error, MessageError, KeyError):
        return one if path.exists() else None


def _is_computed(db: sqlite3.Connection, stage: str, meta: dict[str, str]) -> bool:
    if db.execute("SELECT 1 FROM outbox LIMIT 1").fetchone():
        return False
    if stage == HOME:
        return bool(db.execute("SELECT min(complete) FROM inputs").fetchone()[0])
    return meta["phase"] == ENDED


def _shard_row(data_dir: Path, one: Unfinished, table: str) -> bool:
    """Whether the shard's own database has the client in this table."""
    path = data_dir / "shards" / f"{one.shard.stage}-{one.shard.shard}.db"
    if not path.exists():
        return False
    try:
        with closing(open_reader(path)) as db:
            sql = f"SELECT 1 FROM {table} WHERE client = ?"
            return _has_table(db, table) and bool(db.execute(sql, (one.client,)).fetchone())
    except sqlite3.Error:
        return False


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return db.execute(sql, (name,)).fetchone() is not None
