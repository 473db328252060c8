"""What is committed to the outbox is published whole, in order, in portions of bounded size."""

import contextlib
import sqlite3
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan.state import outbox
from booksan.state.database import open_database, transaction
from booksan.transport.base import Outgoing


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "outbox.db", synchronous="OFF")
    outbox.create(connection)
    yield connection
    connection.close()


def portions(db: sqlite3.Connection, limit: int = outbox.CHUNK_MESSAGES) -> list[list[bytes]]:
    return [[posted.body for posted in portion] for portion in outbox.chunks(db, limit)]


def test_an_empty_outbox_has_nothing_waiting(db: sqlite3.Connection) -> None:
    assert not outbox.waiting(db)
    assert portions(db) == []


def test_messages_come_out_as_they_went_in(db: sqlite3.Connection) -> None:
    messages = [
        Outgoing("q4-top.0", b"one"),
        Outgoing("results.1", b""),
        Outgoing("q4-top.0", b"\0\xff"),
    ]
    outbox.post(db, messages)
    outbox.post(db, iter([Outgoing("results.1", b"four")]))
    assert outbox.waiting(db)
    found = [(posted.queue, posted.body) for portion in outbox.chunks(db) for posted in portion]
    assert found == [*messages, ("results.1", b"four")]


def test_looking_takes_nothing_away(db: sqlite3.Connection) -> None:
    outbox.post(db, [Outgoing("a.0", b"1"), Outgoing("a.0", b"2")])
    assert portions(db) == portions(db) == [[b"1", b"2"]]


def test_only_clearing_empties_it_and_it_can_be_filled_again(db: sqlite3.Connection) -> None:
    outbox.post(db, [Outgoing("a.0", b"1")])
    outbox.clear(db)
    assert not outbox.waiting(db)
    outbox.post(db, [Outgoing("a.0", b"2")])
    assert portions(db) == [[b"2"]]


@settings(deadline=None, max_examples=60)
@given(sizes=st.lists(st.integers(0, 12), max_size=20), limit=st.integers(1, 7))
def test_portions_hold_everything_once_within_both_limits(sizes: list[int], limit: int) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    db = sqlite3.connect(":memory:")
    outbox.create(db)
    outbox.post(db, [Outgoing("a.0", body) for body in bodies])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "CHUNK_BYTES", 16)
        found = portions(db, limit)
    db.close()
    assert [body for portion in found for body in portion] == bodies
    for portion in found:
        assert 1 <= len(portion) <= limit
        assert sum(map(len, portion)) <= 16


def test_a_message_over_the_bytes_of_a_portion_goes_alone(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "CHUNK_BYTES", 10)
    outbox.post(db, [Outgoing("a.0", bytes(size)) for size in (3, 25, 4, 6)])
    assert [[len(body) for body in portion] for portion in portions(db)] == [[3], [25], [4, 6]]


def test_pitfall_many_messages_are_published_together(db: sqlite3.Connection) -> None:
    with transaction(db):
        outbox.post(db, [Outgoing("a.0", b"x")] * 1000)
    assert len(portions(db)) == -(-1000 // outbox.CHUNK_MESSAGES)


def test_what_was_posted_in_a_transaction_that_failed_is_not_there(db: sqlite3.Connection) -> None:
    with contextlib.suppress(KeyError), transaction(db):
        outbox.post(db, [Outgoing("a.0", b"1")])
        raise KeyError
    assert not outbox.waiting(db)


def test_what_was_committed_survives_a_restart(tmp_path: Path, db: sqlite3.Connection) -> None:
    with transaction(db):
        outbox.post(db, [Outgoing("a.0", b"1"), Outgoing("b.1", b"2")])
    again = open_database(tmp_path / "outbox.db")
    outbox.create(again)
    assert portions(again) == [[b"1", b"2"]]
    again.close()


def test_a_long_outbox_is_read_in_bounded_memory() -> None:
    db = sqlite3.connect(":memory:")
    outbox.create(db)
    outbox.post(db, (Outgoing("a.0", bytes(1024 * 1024)) for _ in range(64)))
    tracemalloc.start()
    count = sum(len(portion) for portion in outbox.chunks(db))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    db.close()
    assert count == 64
    assert peak < 2.2 * outbox.CHUNK_BYTES
