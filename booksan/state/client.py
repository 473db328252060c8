"""The database that one shard keeps for one client, and what a message means for its stream."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from booksan.errors import StateError
from booksan.messages import Kind, Message
from booksan.shards import ShardId
from booksan.spec import Spec, spec_from_json
from booksan.state import outbox
from booksan.state.database import has_table, open_database, transaction
from booksan.transport.base import Outgoing
from booksan_common.files import make_directory

# End by counting: what a message means for its stream. Pure code, no database.


class Verdict(Enum):
    NEW = "new"
    REPEAT = "repeat"


class Conflict(Exception):
    """The stream contradicts itself, so the run cannot give right answers."""


@dataclass(frozen=True)
class Stream:
    """What is known of one stream from a sender to this shard."""

    sender: str
    #: Different batches recorded so far.
    received: int = 0
    #: Number of batches that the end told; None before the end came.
    length: int | None = None
    #: The highest batch number recorded; -1 before the first.
    highest: int = -1

    @property
    def complete(self) -> bool:
        # Numbers are unique and below the length, so counting them is enough.
        return self.length is not None and self.received == self.length

    def judge(self, message: Message, known_digest: str | None) -> Verdict:
        """Is it new or a repeat? `known_digest`: what is recorded under the same number."""
        if message.kind is Kind.END:
            return self._judge_end(message.seq)
        if known_digest is not None:
            if known_digest != message.digest:
                raise Conflict(f"batch {message.seq} of {self.sender} came twice, not the same")
            return Verdict.REPEAT
        if self.length is not None and message.seq >= self.length:
            raise Conflict(
                f"batch {message.seq} of {self.sender} is beyond its end at {self.length}"
            )
        return Verdict.NEW

    def _judge_end(self, length: int) -> Verdict:
        if self.length is not None:
            if self.length != length:
                raise Conflict(f"{self.sender} ended with {self.length} and with {length} batches")
            return Verdict.REPEAT
        if self.highest >= length:
            raise Conflict(
                f"{self.sender} ends with {length} batches, but number {self.highest} has come"
            )
        return Verdict.NEW

    def with_message(self, message: Message) -> "Stream":
        """The stream after a new message."""
        if message.kind is Kind.END:
            return Stream(self.sender, self.received, message.seq, self.highest)
        return Stream(self.sender, self.received + 1, self.length, max(self.highest, message.seq))


# The database that one shard keeps for one client.
#
# The dedup table, the state tables of the operator and the outbox are changed in one transaction;
# that is what makes the effects of a message happen exactly once.

SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    """CREATE TABLE dedup (
        sender TEXT NOT NULL, seq INTEGER NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (sender, seq)
    ) WITHOUT ROWID""",
    """CREATE TABLE streams (
        sender TEXT PRIMARY KEY, input TEXT NOT NULL,
        received INTEGER NOT NULL DEFAULT 0, length INTEGER, highest INTEGER NOT NULL DEFAULT -1,
        rows INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0,
        moved INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE TABLE inputs (input TEXT PRIMARY KEY, complete INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE sent (queue TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID",
    *outbox.SCHEMA,
)

#: For people with the sqlite3 shell.
PROGRESS = f"""SELECT (SELECT value FROM meta WHERE key = 'stage') AS stage,
               (SELECT value FROM meta WHERE key = 'shard') AS shard,
               sender, received AS batches, length AS of_batches,
               length IS NOT NULL AND received = length AS complete, rows, bytes, moved,
               (SELECT value FROM meta WHERE key = 'phase') AS phase,
               (SELECT count(*) {outbox.WAITING}) AS outbox
        FROM streams ORDER BY sender"""

#: The phases of a shard's work for a client, kept in meta.
TAKING = "taking"
FINISHING = "finishing"
ENDED = "ended"


def database_path(root: Path, client: str, stage: str, shard: int) -> Path:
    return root / "clients" / client / f"{ShardId(stage, shard).file_name}.db"


def set_meta(db: sqlite3.Connection, key: str, value: str | None) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def complete_inputs(db: sqlite3.Connection, names: Iterable[str]) -> None:
    """Notes that all of their streams are complete."""
    db.executemany("UPDATE inputs SET complete = 1 WHERE input = ?", [(name,) for name in names])


class ClientStore:
    """Dedup, streams, numbering and outbox; the operator's tables live beside them."""

    def __init__(self, path: Path, db: sqlite3.Connection, spec: Spec, *, made: bool) -> None:
        self.path = path
        self.db = db
        self.spec = spec
        #: False until the transaction that makes the tables.
        self.made = made

    @classmethod
    def open(cls, path: Path, *, synchronous: str) -> "ClientStore | None":
        """The store in this file, or None if it was never completely made."""
        if not path.exists():
            return None
        db = open_database(path, synchronous=synchronous)
        try:
            if has_table(db, "meta"):
                text = db.execute("SELECT value FROM meta WHERE key = 'spec'").fetchone()[0]
                store = cls(path, db, spec_from_json(text), made=True)
                store._upgrade()
                return store
        except BaseException:
            db.close()
            raise
        db.close()
        return None

    @classmethod
    def begin(cls, path: Path, spec: Spec, *, synchronous: str) -> "ClientStore":
        """An empty database, to be filled by `create` inside a transaction."""
        # Its own name SQLite makes last, with the first commit.
        make_directory(path.parent, within=path.parents[2])
        return cls(path, open_database(path, synchronous=synchronous), spec, made=False)

    def create(
        self, stage: str, shard: int, streams: Sequence[tuple[str, str]], now: float
    ) -> None:
        """The tables, with every stream (sender, input) that there will be."""
        for statement in (*SCHEMA, f"CREATE VIEW progress AS {PROGRESS}"):
            self.db.execute(statement)
        self.db.executemany(
            "INSERT INTO streams (sender, input, moved) VALUES (?, ?, ?)",
            [(*stream, int(now)) for stream in streams],
        )
        self.db.executemany(
            "INSERT OR IGNORE INTO inputs VALUES (?, 0)", [(name,) for _, name in streams]
        )
        for key, value in (
            ("spec", self.spec.json),
            ("stage", stage),
            ("shard", str(shard)),
            ("phase", TAKING),
        ):
            self.set_meta(key, value)
        self.made = True

    def _upgrade(self) -> None:
        """A database that was made before published messages were kept."""
        if has_table(self.db, "published"):
            return
        # Only here: it takes a third of a second to load, and old databases are rare.
        import sqlite_utils

        with transaction(self.db):
            outbox.create(self.db)
            sqlite_utils.Database(self.db).create_view("progress", PROGRESS, replace=True)

    def close(self) -> None:
        self.db.close()

    @property
    def settled(self) -> bool:
        """Is nothing left to be done here, unless somebody asks?"""
        return self.phase == ENDED and not outbox.waiting(self.db)

    @property
    def progress(self) -> str:
        """Another text after each piece that was committed, and each publish that was noted."""
        return f"{self.phase} {self.meta('cursor')} {outbox.published(self.db)}"

    def meta(self, key: str) -> str | None:
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def set_meta(self, key: str, value: str | None) -> None:
        set_meta(self.db, key, value)

    @property
    def phase(self) -> str:
        return self.meta("phase") or TAKING

    def judge(self, message: Message) -> Verdict:
        """New or repeat; Conflict if it contradicts what came before."""
        return self._stream(message.sender).judge(message, self._known_digest(message))

    def record(self, message: Message, now: float) -> None:
        """Notes a new message in dedup and in its stream, inside a transaction."""
        stream = self._stream(message.sender).with_message(message)
        if message.kind is Kind.BATCH:
            self.db.execute(
                "INSERT INTO dedup VALUES (?, ?, ?)", (message.sender, message.seq, message.digest)
            )
        self.db.execute(
            """UPDATE streams SET received = ?, length = ?, highest = ?,
                   rows = rows + ?, bytes = bytes + ?, moved = ? WHERE sender = ?""",
            (
                stream.received,
                stream.length,
                stream.highest,
                message.data.get("rows", 0),
                len(message.body),
                int(now),
                message.sender,
            ),
        )

    def newly_complete(self) -> list[str]:
        """Inputs whose streams are all complete now and were not before; notes them."""
        names = [
            row[0]
            for row in self.db.execute(
                """SELECT i.input FROM inputs i JOIN streams s USING (input)
                   WHERE NOT i.complete GROUP BY i.input
                   HAVING min(s.length IS NOT NULL AND s.received = s.length)
                   ORDER BY i.input"""
            )
        ]
        complete_inputs(self.db, names)
        return names

    def complete_inputs(self) -> list[str]:
        rows = self.db.execute("SELECT input FROM inputs WHERE complete ORDER BY input")
        return [row[0] for row in rows]

    def incomplete_senders(self) -> list[str]:
        """Of whom something is still to come."""
        rows = self.db.execute(
            "SELECT sender FROM streams WHERE length IS NULL OR received < length ORDER BY sender"
        )
        return [row[0] for row in rows]

    def last_moved(self) -> int:
        """When a message last came that was new."""
        return int(self.db.execute("SELECT ifnull(max(moved), 0) FROM streams").fetchone()[0])

    def all_complete(self) -> bool:
        return bool(self.db.execute("SELECT min(complete) FROM inputs").fetchone()[0])

    def uploaded_rows(self) -> int:
        """Rows of all batches that came from the gateways."""
        sql = "SELECT ifnull(sum(rows), 0) FROM streams WHERE sender LIKE 'gateway/%'"
        return int(self.db.execute(sql).fetchone()[0])

    def idle_since(self) -> int | None:
        """When a batch last came from the gateways; None once all of their streams are complete."""
        moved, complete = self.db.execute(
            """SELECT max(moved), min(length IS NOT NULL AND received = length)
               FROM streams WHERE sender LIKE 'gateway/%'"""
        ).fetchone()
        return None if complete else int(moved)

    def next_seq(self, queue: str) -> int:
        """Numbers the next message of this shard's stream to a queue."""
        row = self.db.execute(
            """INSERT INTO sent VALUES (?, 1) ON CONFLICT (queue) DO UPDATE SET next = next + 1
               RETURNING next""",
            (queue,),
        ).fetchone()
        return int(row[0]) - 1

    def sent_to(self, queue: str) -> int:
        row = self.db.execute("SELECT next FROM sent WHERE queue = ?", (queue,)).fetchone()
        return row[0] if row else 0

    def post(self, messages: Sequence[Outgoing]) -> None:
        outbox.post(self.db, messages)

    def _stream(self, sender: str) -> Stream:
        row = self.db.execute(
            "SELECT sender, received, length, highest FROM streams WHERE sender = ?", (sender,)
        ).fetchone()
        if row is None:
            raise StateError(f"{self.path.name} expects nothing from {sender}")
        return Stream(*row)

    def _known_digest(self, message: Message) -> str | None:
        if message.kind is not Kind.BATCH:
            return None
        row = self.db.execute(
            "SELECT digest FROM dedup WHERE sender = ? AND seq = ?", (message.sender, message.seq)
        ).fetchone()
        return row[0] if row else None
