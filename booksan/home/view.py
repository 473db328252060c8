"""Reading what a client's home knows, in short transactions, from any process of its host."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from booksan.home.stage import JOINED
from booksan.spec import HOME, Spec, spec_from_json
from booksan.stages.columns import answer_table
from booksan.stages.graph import Query
from booksan.stages.operator import Matches
from booksan.state.client import database_path
from booksan.state.database import open_reader
from booksan.state.readers import first_gaps
from booksan.tickets import sign_permit, sign_ticket


@dataclass(frozen=True)
class SourceStatus:
    batches: int
    #: Known once the end came.
    of_batches: int | None
    rows: int
    rejected: int
    #: The first batch numbers that are missing below the highest that came, or below the end.
    missing: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        return self.batches == self.of_batches


@dataclass(frozen=True)
class HomeStatus:
    spec: Spec
    ticket: str
    failed: str | None
    permits: dict[str, str]
    sources: dict[str, SourceStatus]
    #: Stages whose output has arrived completely.
    complete: frozenset[str]
    done: bool
    #: By source and stage, what each shard that joins it has counted: rows, and those that matched.
    joined: Mapping[tuple[str, str], Sequence[Matches]] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        return sum(source.rejected for source in self.sources.values())

    def signed_anew(self, key: bytes) -> "HomeStatus":
        """With the present secret: the home may have signed with one that holds no more."""
        permits = {source: sign_permit(key, self.spec, source) for source in self.permits}
        return replace(self, ticket=sign_ticket(key, self.spec), permits=permits)


class HomeView:
    """A reader of the home's database; what is not there yet reads as None."""

    def __init__(self, root: Path, client: str, shard: int) -> None:
        self.client = client
        self._path = database_path(root, client, HOME, shard)
        self._shard_path = root / "shards" / f"{HOME}-{shard}.db"
        self._db: sqlite3.Connection | None = None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def status(self) -> HomeStatus | None:
        db = self._open()
        if db is None:
            return None
        db.execute("BEGIN")
        try:
            return self._status(db)
        finally:
            db.execute("COMMIT")

    def answer(self, query: Query, offset: int = 0, limit: int = -1) -> list[tuple[Any, ...]]:
        """Rows of an answer, all or one page, in the order in which they are written."""
        return list(self.answer_rows(query, offset, limit))

    def answer_rows(
        self, query: Query, offset: int = 0, limit: int = -1
    ) -> Iterator[tuple[Any, ...]]:
        """The same, one by one, so that a long answer need not be held in memory."""
        table = answer_table(query)
        order = table.order(query.sorted_by)
        sql = f'SELECT {table.selected} FROM "{table.name}" ORDER BY {order} LIMIT ? OFFSET ?'
        return self._ready().execute(sql, (limit, offset))

    def answer_count(self, query: Query) -> int:
        """Rows that have come so far: they are only ever added, so the last number counts them."""
        row = self._ready().execute(f'SELECT max(rowid) FROM "{query.name}"').fetchone()
        return row[0] or 0

    def rejected_rows(self, source: str) -> Iterator[tuple[int, str]]:
        """(row, reason) in file order, of the batches before which none is missing."""
        return self._ready().execute(
            "SELECT row, reason FROM rejected_rows WHERE source = ? ORDER BY row", (source,)
        )

    def rejected_page(
        self, sources: Sequence[str], offset: int, limit: int
    ) -> list[tuple[str, int, str]]:
        """(source, row, reason) of these sources, one after the other, from `offset` on."""
        marks = ", ".join("?" for _ in sources)
        order = " ".join(f"WHEN ? THEN {place}" for place in range(len(sources)))
        return (
            self._ready()
            .execute(
                f"""SELECT source, row, reason FROM rejected_rows WHERE source IN ({marks})
                    ORDER BY CASE source {order} END, row LIMIT ? OFFSET ?""",
                (*sources, *sources, limit, offset),
            )
            .fetchall()
        )

    def rejected_count(self, sources: Sequence[str]) -> int:
        marks = ", ".join("?" for _ in sources)
        sql = f"SELECT count(*) FROM rejected_rows WHERE source IN ({marks})"
        return int(self._ready().execute(sql, tuple(sources)).fetchone()[0])

    def how_gone(self) -> str | None:
        """How the run ended, once the home has written the client's tombstone."""
        return self._shard_row("tombstones", "how")

    def owner_of_gone(self) -> str:
        """Whose the run was; empty if nobody knows any more."""
        return self._shard_row("tombstones", "owner") or ""

    def _status(self, db: sqlite3.Connection) -> HomeStatus:
        meta = dict(db.execute("SELECT key, value FROM meta"))
        counts = {
            source: (rows, rejected)
            for source, rows, rejected in db.execute(
                "SELECT source, sum(rows), sum(rejected) FROM batches GROUP BY source"
            )
        }
        sources = {
            name: SourceStatus(
                received,
                length,
                *counts.get(name, (0, 0)),
                missing=_missing(db, name, received, highest + 1 if length is None else length),
            )
            for name, received, length, highest in db.execute(
                "SELECT input, received, length, highest FROM streams WHERE sender LIKE 'gateway/%'"
            ).fetchall()
        }
        inputs = dict(db.execute("SELECT input, complete FROM inputs"))
        # The first reason is the one to tell; what follows it is mostly its consequence.
        failure = db.execute(
            "SELECT reason FROM failures WHERE failed > forgiven ORDER BY id LIMIT 1"
        ).fetchone()
        return HomeStatus(
            spec=spec_from_json(meta["spec"]),
            ticket=meta["ticket"],
            # A home whose own database is broken keeps the failure in the shard's.
            failed=failure[0] if failure else self._shard_row("failures", "reason"),
            permits=dict(db.execute("SELECT source, permit FROM permits")),
            sources=sources,
            complete=frozenset(name for name, complete in inputs.items() if complete),
            done=all(inputs.values()),
            joined=_joined(meta),
        )

    def _ready(self) -> sqlite3.Connection:
        db = self._open()
        assert db is not None, "asked for answers before the client was created"
        return db

    def _open(self) -> sqlite3.Connection | None:
        if self._db is None and self._path.exists():
            try:
                db = open_reader(self._path)
            except sqlite3.OperationalError:
                # Deleted since.
                if self._path.exists():
                    raise
                return None
            # An empty file is there for a moment before its tables are.
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                self._db = db
            else:
                db.close()
        return self._db

    def _shard_row(self, table: str, column: str) -> str | None:
        """What the home's own database says of the client; None also before it is made."""
        if not self._shard_path.exists():
            return None
        db = open_reader(self._shard_path)
        try:
            known = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
            if column not in known:
                # Just being made, or made by an earlier version.
                return None
            sql = f"SELECT {column} FROM {table} WHERE client = ?"
            row = db.execute(sql, (self.client,)).fetchone()
            return str(row[0]) if row else None
        finally:
            db.close()


def _joined(meta: Mapping[str, str]) -> dict[tuple[str, str], list[Matches]]:
    found: dict[tuple[str, str], list[Matches]] = {}
    for key in sorted(meta):
        if key.startswith(JOINED):
            source, stage, _ = key.removeprefix(JOINED).split(" ")
            found.setdefault((source, stage), []).append(Matches(*json.loads(meta[key])))
    return found


def _missing(db: sqlite3.Connection, source: str, received: int, top: int) -> tuple[int, ...]:
    if received == top:
        return ()
    sender = f"gateway/{source}"
    numbers = db.execute("SELECT seq FROM dedup WHERE sender = ? ORDER BY seq", (sender,))
    return tuple(first_gaps((seq for (seq,) in numbers), top))
