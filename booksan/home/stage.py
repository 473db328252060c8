"""The home of a client: counts and rejected rows, the answers, and the decisions about it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from booksan.messages import Control, Message, to_frame
from booksan.shards import ShardId
from booksan.spec import HOME
from booksan.stages.columns import Table, answer_table
from booksan.stages.graph import Dataset, Stage
from booksan.stages.operator import Stateful
from booksan.tickets import sign_permit, sign_ticket

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
        self.db.execute("INSERT INTO meta VALUES ('ticket', ?)", (ticket,))
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

    def control(self, message: Message) -> None:
        if message.control is Control.COMPLETE:
            self.db.execute(
                "INSERT OR IGNORE INTO joined VALUES (?, ?, ?)",
                (message.data["source"], message.data["stage"], message.data["shard"]),
            )
            self._note_matches(message)
            self._give_permits()
        elif message.control is Control.FAILED:
            self._note(message, failed=message.data["round"], reason=message.data["reason"])
        elif message.control is Control.FORGIVEN:
            self._note(message, forgiven=message.data["round"])
        elif message.control is not Control.CREATED:
            super().control(message)

    def failure(self) -> str | None:
        """The first reason is the one to tell; what follows it is mostly its consequence."""
        row = self.db.execute(
            "SELECT reason FROM failures WHERE failed > forgiven ORDER BY id LIMIT 1"
        ).fetchone()
        return row[0] if row else None

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
            value = json.dumps([data["rows"], data["matched"]])
            self.db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, value))

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
            self.db.execute(
                "INSERT OR IGNORE INTO permits VALUES (?, ?)",
                (source.name, sign_permit(self.place.secret, self.place.spec, source.name)),
            )
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


def with_home(dataset: Dataset) -> Dataset:
    """The data set as it runs: its home, which all have, is the last stage."""
    answering = dict.fromkeys(query.stage for query in dataset.queries)
    inputs = (*(source.name for source in dataset.sources), *answering)
    home = Stage(HOME, inputs, Results(), keyed=False)
    declared = (stage for stage in dataset.stages if not isinstance(stage.operator, Results))
    return replace(dataset, stages=(*declared, home))
