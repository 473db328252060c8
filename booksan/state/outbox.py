"""Messages that were committed and wait to be published: in every database, always the same.

A client's database keeps them after they were published, so that they can be sent again when a
queue has lost them: they are few beside the state that they were made from. A shard's own database
has no such use for them and forgets them.
"""

import sqlite3
from collections.abc import Iterable, Iterator

from booksan.state.database import transaction
from booksan.transport.base import Outgoing

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS outbox (
        id INTEGER PRIMARY KEY,
        queue TEXT NOT NULL,
        body BLOB NOT NULL
    )""",
    # Published are all up to this id, but for those of the queues that asked for them again.
    "CREATE TABLE IF NOT EXISTS published (one INTEGER PRIMARY KEY, upto INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS repeats (queue TEXT PRIMARY KEY) WITHOUT ROWID",
)

#: SQL for the rows that wait: the new ones, and those that were asked for again.
NEW = "FROM outbox WHERE id > (SELECT ifnull(max(upto), 0) FROM published)"
WAITING = f"{NEW} OR queue IN (SELECT queue FROM repeats)"

#: Messages and bytes published and confirmed together.
CHUNK_MESSAGES = 64
CHUNK_BYTES = 16 * 1024 * 1024


def create(db: sqlite3.Connection) -> None:
    """Also in a database that was made before messages were kept."""
    for statement in SCHEMA:
        db.execute(statement)


def post(db: sqlite3.Connection, messages: Iterable[Outgoing]) -> None:
    db.executemany("INSERT INTO outbox (queue, body) VALUES (?, ?)", messages)


def repeat(db: sqlite3.Connection, queue: str) -> None:
    """All that was ever published to this queue waits once more."""
    db.execute("INSERT OR IGNORE INTO repeats VALUES (?)", (queue,))


def waiting(db: sqlite3.Connection) -> bool:
    return db.execute(f"SELECT 1 {_waiting(db)} LIMIT 1").fetchone() is not None


def chunks(db: sqlite3.Connection, limit: int = CHUNK_MESSAGES) -> Iterator[list[Outgoing]]:
    """What is waiting, oldest first, in portions that fit into memory."""
    portion: list[Outgoing] = []
    size = 0
    for row in map(Outgoing._make, db.execute(f"SELECT queue, body {_waiting(db)} ORDER BY id")):
        if portion and (len(portion) == limit or size + len(row.body) > CHUNK_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(row)
        size += len(row.body)
    if portion:
        yield portion


def published(db: sqlite3.Connection) -> int:
    """The id up to which all are published."""
    return int(db.execute("SELECT ifnull(max(upto), 0) FROM published").fetchone()[0])


def mark_published(db: sqlite3.Connection) -> None:
    """Everything that waited is published, and kept."""
    with transaction(db):
        db.execute("INSERT OR REPLACE INTO published SELECT 1, ifnull(max(id), 0) FROM outbox")
        db.execute("DELETE FROM repeats")


def clear(db: sqlite3.Connection) -> None:
    """Everything that waited is published, and forgotten."""
    db.execute("DELETE FROM outbox")


def _waiting(db: sqlite3.Connection) -> str:
    """Nearly always it need not look at all that was ever published."""
    return WAITING if db.execute("SELECT 1 FROM repeats LIMIT 1").fetchone() else NEW
