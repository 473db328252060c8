"""The home of a client: the stage that decides about a run, and what others read of it."""

import json
import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from booksan.logs import of_client
from booksan.messages import Control, Message, to_frame
from booksan.shards import ShardId
from booksan.spec import HOME, Spec, spec_from_json
from booksan.stages.graph import Dataset, Query, Stage
from booksan.stages.operator import Matches, Stateful
from booksan.stages.operators.rows import Table, answer_table
from booksan.state.client import database_path, set_meta
from booksan.state.database import has_table, open_reader, transaction
from booksan.state.readers import all_meta, inputs, shard_row, uploads
from booksan.tickets import sign_permit, sign_ticket

log = logging.getLogger("booksan.home")

# The stage: counts and rejected rows, the answers, and the decisions about the run.

#: Begins the keys in meta that tell what joins have counted: then source, stage and shard.
JOINED = "joined "


class Results(Stateful):
    schema = """
        CREATE TABLE batches (
            source TEXT NOT NULL, batch INTEGER NOT NULL, rows INTEGER NOT NULL,
            rejected INTEGER NOT NULL, PRIMARY KEY (source, batch)
        ) WITHOUT ROWID;
        CREATE TABLE rejected (
            source TEXT NOT NULL, batch INTEGER NOT NULL, row INTEGER NOT NULL,
            reason TEXT NOT NULL, PRIMARY KEY (source, batch, row)
        ) WITHOUT ROWID;
        CREATE TABLE joined (
            source TEXT NOT NULL, stage TEXT NOT NULL, shard INTEGER NOT NULL,
            PRIMARY KEY (source, stage, shard)
        ) WITHOUT ROWID;
        CREATE TABLE permits (source TEXT PRIMARY KEY, permit TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE failures (
            id INTEGER PRIMARY KEY, sender TEXT NOT NULL, letter TEXT NOT NULL,
            failed INTEGER NOT NULL, forgiven INTEGER NOT NULL, reason TEXT NOT NULL,
            UNIQUE (sender, letter)
        );
        CREATE VIEW rejected_rows AS
            SELECT source, before + row + 1 AS row, reason
            FROM rejected JOIN (
                SELECT source, batch,
                       sum(rows) OVER earlier - rows AS before,
                       count(*) OVER earlier = batch + 1 AS known
                FROM batches WINDOW earlier AS (
                    PARTITION BY source ORDER BY batch
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                )
            ) USING (source, batch)
            WHERE known
    """

    def create(self) -> None:
        super().create()
        for query in self.place.dataset.queries:
            answer_table(query).create(self.db)
        ticket = sign_ticket(self.place.secret, self.place.spec)
        set_meta(self.db, "ticket", ticket)
        self._give_permits()

    def prepare(self, message: Message) -> list[tuple[Any, ...]]:
        frame = to_frame(message.body)
        if message.input in self.place.dataset.source:
            return frame.select("row", "reason").rows()
        return self._table(message.input).prepared(frame)

    def apply(self, message: Message, prepared: list[tuple[Any, ...]]) -> None:
        name = message.input
        if name in self.place.dataset.source:
            self.db.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?)",
                (name, message.seq, message.data["rows"], len(prepared)),
            )
            self.db.executemany(
                "INSERT INTO rejected VALUES (?, ?, ?, ?)",
                [(name, message.seq, row, reason) for row, reason in prepared],
            )
            return
        self._table(name).insert(self.db, prepared)
        log.debug("answer", extra=of_client(message.client, stage=name, rows=len(prepared)))

    def control(self, message: Message) -> None:
        if message.control is Control.COMPLETE:
            self.db.execute(
                "INSERT OR IGNORE INTO joined VALUES (?, ?, ?)",
                (message.data["source"], message.data["stage"], message.data["shard"]),
            )
            log.debug("report", extra=of_client(message.client, **message.data))
            self._note_matches(message)
            self._give_permits()
        elif message.control is Control.FAILED:
            self._note(message, failed=message.data["round"], reason=message.data["reason"])
        elif message.control is Control.FORGIVEN:
            self._note(message, forgiven=message.data["round"])
        elif message.control is not Control.CREATED:
            super().control(message)

    def failure(self) -> str | None:
        return _failure(self.db)

    def unheard(self) -> Iterator[str]:
        """Shards whose report the next permit waits for, or whose letters are not forgiven."""
        for source in self.place.dataset.sources:
            missing = self._missing_reports(source.name)
            yield from (ShardId(stage, shard).sender for _, stage, shard in sorted(missing))
            if missing:
                break
        failures = "SELECT sender FROM failures WHERE failed > forgiven AND letter != ''"
        yield from (sender for (sender,) in self.db.execute(failures))

    def _note_matches(self, message: Message) -> None:
        """What a join has counted of a source; told again it is the same."""
        data = message.data
        if "matched" in data:
            key = f"{JOINED}{data['source']} {data['stage']} {data['shard']}"
            set_meta(self.db, key, json.dumps([data["rows"], data["matched"]]))

    def _note(
        self, message: Message, *, failed: int = 0, forgiven: int = 0, reason: str = ""
    ) -> None:
        """Failures and their forgiveness come in any order: the highest round of each counts."""
        self.db.execute(
            """INSERT INTO failures (sender, letter, failed, forgiven, reason)
               VALUES (?, ?, ?, ?, ?) ON CONFLICT (sender, letter) DO UPDATE SET
                   failed = max(failed, excluded.failed),
                   forgiven = max(forgiven, excluded.forgiven),
                   reason = iif(excluded.reason = '', reason, excluded.reason)""",
            (message.sender, message.data["letter"], failed, forgiven, reason),
        )

    def _give_permits(self) -> None:
        """A source may come when all that join the sources before it have said they are whole."""
        for source in self.place.dataset.sources:
            given = self.db.execute(
                "INSERT OR IGNORE INTO permits VALUES (?, ?)",
                (source.name, sign_permit(self.place.secret, self.place.spec, source.name)),
            )
            if given.rowcount:
                log.debug("permit", extra=of_client(self.place.spec.client, source=source.name))
            if self._missing_reports(source.name):
                return

    def _missing_reports(self, source: str) -> set[tuple[str, str, int]]:
        """(source, stage, shard) of those that join it and have not said yet that they have all."""
        spec, dataset = self.place.spec, self.place.dataset
        needed = {
            (source, stage.name, shard)
            for stage in dataset.joiners(source)
            for shard in dataset.shards_of(stage.name, spec)
        }
        return needed - set(self.db.execute("SELECT source, stage, shard FROM joined"))

    def _table(self, stage: str) -> Table:
        queries = self.place.dataset.queries
        return answer_table(next(query for query in queries if query.stage == stage))


def _failure(db: sqlite3.Connection) -> str | None:
    """The first reason is the one to tell; what follows it is mostly its consequence."""
    sql = "SELECT reason FROM failures WHERE failed > forgiven ORDER BY id LIMIT 1"
    row = db.execute(sql).fetchone()
    return row[0] if row else None


def with_home(dataset: Dataset) -> Dataset:
    """The data set as it runs: its home, which all have, is the last stage."""
    answering = dict.fromkeys(query.stage for query in dataset.queries)
    inputs = (*(source.name for source in dataset.sources), *answering)
    home = Stage(HOME, inputs, Results(), keyed=False)
    declared = (stage for stage in dataset.stages if not isinstance(stage.operator, Results))
    return replace(dataset, stages=(*declared, home))


# What others read of it, in short transactions, from any process of its host.


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
        self._root, self._shard = root, ShardId(HOME, shard)
        self._db: sqlite3.Connection | None = None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def status(self) -> HomeStatus | None:
        db = self._open()
        if db is None:
            return None
        with transaction(db, "BEGIN"):
            return self._status(db)

    def answer(self, query: Query, offset: int = 0, limit: int = -1) -> list[tuple[Any, ...]]:
        """Rows of an answer, all or one page, in the order in which they are written."""
        return list(self.answer_rows(query, offset, limit))

    def answer_rows(
        self, query: Query, offset: int = 0, limit: int = -1
    ) -> Iterator[tuple[Any, ...]]:
        """The same, one by one, so that a long answer need not be held in memory."""
        return answer_table(query).rows(self._ready(), query.sorted_by, limit, offset)

    def answer_count(self, query: Query) -> int:
        """Rows that have come so far."""
        return answer_table(query).count(self._ready())

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
        meta, complete = all_meta(db), inputs(db)
        counts = {
            source: (rows, rejected)
            for source, rows, rejected in db.execute(
                "SELECT source, sum(rows), sum(rejected) FROM batches GROUP BY source"
            )
        }
        return HomeStatus(
            spec=spec_from_json(meta["spec"]),
            ticket=meta["ticket"],
            # A home whose own database is broken keeps the failure in the shard's.
            failed=_failure(db) or self._shard_row("failures", "reason"),
            permits=dict(db.execute("SELECT source, permit FROM permits")),
            sources={
                source: SourceStatus(batches, of, *counts.get(source, (0, 0)), missing=missing)
                for source, batches, of, missing in uploads(db)
            },
            complete=frozenset(name for name in complete if complete[name]),
            done=all(complete.values()),
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
            if has_table(db, "meta"):
                self._db = db
            else:
                db.close()
        return self._db

    def _shard_row(self, table: str, column: str) -> str | None:
        return shard_row(self._root, self._shard, self.client, table, column)


def _joined(meta: Mapping[str, str]) -> dict[tuple[str, str], list[Matches]]:
    found: dict[tuple[str, str], list[Matches]] = {}
    for key in sorted(meta):
        if key.startswith(JOINED):
            source, stage, _ = key.removeprefix(JOINED).split(" ")
            found.setdefault((source, stage), []).append(Matches(*json.loads(meta[key])))
    return found
