"""Messages that were committed and wait to be published: in every database, always the same."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

SCHEMA = """
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    body BLOB NOT NULL
)
"""

#: Messages and bytes published and confirmed together.
CHUNK_MESSAGES = 64
CHUNK_BYTES = 16 * 1024 * 1024


class Posted(NamedTuple):
    id: int
    queue: str
    body: bytes


def post(db: sqlite3.Connection, messages: Iterable[tuple[str, bytes]]) -> None:
    db.executemany("INSERT INTO outbox (queue, body) VALUES (?, ?)", messages)


def waiting(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM outbox LIMIT 1").fetchone() is not None


def chunks(db: sqlite3.Connection, limit: int = CHUNK_MESSAGES) -> Iterator[list[Posted]]:
    """What is waiting, oldest first, in portions that fit into memory."""
    portion: list[Posted] = []
    size = 0
    for row in map(Posted._make, db.execute("SELECT id, queue, body FROM outbox ORDER BY id")):
        if portion and (len(portion) == limit or size + len(row.body) > CHUNK_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(row)
        size += len(row.body)
    if portion:
        yield portion


def clear(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM outbox")
