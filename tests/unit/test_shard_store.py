"""A shard remembers who is gone, who failed, and which message it fights with."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from booksan.errors import StateError
from booksan.state import outbox
from booksan.state.shard import TOMBSTONE_MARGIN, ShardStore, lock_shard
from booksan.transport.base import Outgoing

EXPIRES = 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ShardStore]:
    made = ShardStore(tmp_path, "q3-join", 1, synchronous="OFF")
    yield made
    made.close()


def reopened(store: ShardStore, tmp_path: Path) -> ShardStore:
    """As after a death: nothing is said before."""
    store.close()
    return ShardStore(tmp_path, "q3-join", 1, synchronous="OFF")


def posted(store: ShardStore) -> list[tuple[str, bytes]]:
    return [(each.queue, each.body) for chunk in outbox.chunks(store.db) for each in chunk]


def test_pitfall_a_tombstone_survives_restarts(store: ShardStore, tmp_path: Path) -> None:
    """A list in memory only would let late messages bring the state back."""
    assert not store.is_gone("a")
    store.leave_tombstone("a", "done", EXPIRES, [])
    for _ in range(2):
        store = reopened(store, tmp_path)
        assert store.is_gone("a")
        assert store.how_gone("a") == "done"
        assert not store.is_gone("b")
        assert store.how_gone("b") is None
    store.close()


def test_shards_have_tombstones_of_their_own(store: ShardStore, tmp_path: Path) -> None:
    store.leave_tombstone("a", "done", EXPIRES, [])
    for stage, shard in (("q3-join", 2), ("q4-top", 1)):
        other = ShardStore(tmp_path, stage, shard, synchronous="OFF")
        assert not other.is_gone("a")
        other.close()


def test_a_tombstone_and_its_messages_commit_together(store: ShardStore, tmp_path: Path) -> None:
    impossible = [("q4-top.0", b"gone"), ("q4-top.1", None)]
    with pytest.raises(sqlite3.IntegrityError):
        store.leave_tombstone("a", "done", EXPIRES, impossible)  # type: ignore[arg-type]
    assert not store.is_gone("a")
    again = reopened(store, tmp_path)
    assert not again.is_gone("a")
    assert posted(again) == []
    again.leave_tombstone("a", "done", EXPIRES, [Outgoing("q4-top.0", b"gone")])
    again = reopened(again, tmp_path)
    assert again.is_gone("a")
    assert posted(again) == [("q4-top.0", b"gone")]
    again.close()


def test_burying_twice_keeps_the_first_word(store: ShardStore) -> None:
    store.leave_tombstone("a", "cancelled", EXPIRES, [])
    store.leave_tombstone("a", "done", EXPIRES, [])
    assert store.how_gone("a") == "cancelled"


def test_a_tombstone_outlives_the_hard_expiry(store: ShardStore, tmp_path: Path) -> None:
    store.leave_tombstone("a", "done", EXPIRES, [])
    store.prune(EXPIRES + 1)
    store.prune(EXPIRES + TOMBSTONE_MARGIN)
    assert store.is_gone("a")
    again = reopened(store, tmp_path)
    assert again.is_gone("a")
    again.close()


def test_pitfall_tombstones_do_not_fill_the_disk_for_ever(
    store: ShardStore, tmp_path: Path
) -> None:
    store.leave_tombstone("old", "done", EXPIRES, [])
    store.leave_tombstone("young", "done", EXPIRES + 10, [])
    store.prune(EXPIRES + TOMBSTONE_MARGIN + 1)
    assert not store.is_gone("old")
    assert store.is_gone("young")
    again = reopened(store, tmp_path)
    assert not again.is_gone("old")
    assert again.is_gone("young")
    again.close()


def test_pruning_goes_by_the_time_that_it_is_given(store: ShardStore) -> None:
    store.leave_tombstone("past", "done", 0, [])
    store.leave_tombstone("future", "done", 2**40, [])
    store.prune(2**32)
    assert not store.is_gone("past")
    assert store.is_gone("future")


def test_a_failure_is_remembered_and_reported_once(store: ShardStore, tmp_path: Path) -> None:
    store.fail("a", "first reason", EXPIRES, [Outgoing("results.0", b"report")])
    again = reopened(store, tmp_path)
    assert again.is_failed("a")
    assert not again.is_failed("b")
    assert not again.is_gone("a")
    assert posted(again) == [("results.0", b"report")]
    again.fail("a", "second reason", EXPIRES, [])
    reasons = again.db.execute("SELECT reason FROM failures").fetchall()
    assert reasons == [("first reason",)]
    again.close()


def test_a_failure_and_its_report_commit_together(store: ShardStore, tmp_path: Path) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        store.fail("a", "reason", EXPIRES, [Outgoing("results.0", None)])  # type: ignore[arg-type]
    assert not store.is_failed("a")
    again = reopened(store, tmp_path)
    assert not again.is_failed("a")
    again.close()


def test_a_client_that_is_gone_is_not_failed_any_more(store: ShardStore, tmp_path: Path) -> None:
    store.fail("a", "reason", EXPIRES, [])
    store.leave_tombstone("a", "cancelled", EXPIRES, [])
    assert not store.is_failed("a")
    again = reopened(store, tmp_path)
    assert not again.is_failed("a")
    assert again.is_gone("a")
    again.close()


def test_attempts_are_counted_by_message_across_restarts(store: ShardStore, tmp_path: Path) -> None:
    assert store.count_attempt("m1", "ValueError: a") == 1
    assert store.count_attempt("m2", "ValueError: b") == 1
    again = reopened(store, tmp_path)
    assert again.count_attempt("m1", "KeyError: c") == 2
    errors = dict(again.db.execute("SELECT message, error FROM attempts"))
    assert errors == {"m1": "KeyError: c", "m2": "ValueError: b"}
    again.forget_attempts("m1")
    again.forget_attempts("never seen")
    assert again.count_attempt("m1", "KeyError: c") == 1
    assert again.count_attempt("m2", "ValueError: b") == 2
    again.close()


def test_ten_deaths_in_a_row_are_counted(store: ShardStore, tmp_path: Path) -> None:
    for deaths in range(11):
        assert store.take_in_hand("m1") == deaths
        store = reopened(store, tmp_path)
    store.close()


def test_deaths_are_counted_for_each_message_by_itself(store: ShardStore, tmp_path: Path) -> None:
    deaths = []
    for message in ("m1", "m1", "m1", "m2", "m1", "m1"):
        deaths.append(store.take_in_hand(message))
        store = reopened(store, tmp_path)
    store.close()
    assert deaths == [0, 1, 2, 0, 3, 4]


def test_equal_copies_that_are_handled_are_no_deaths(store: ShardStore) -> None:
    for _ in range(20):
        assert store.take_in_hand("m1") == 0
        store.put_down("m1")


def test_what_was_put_down_has_caused_no_death(store: ShardStore, tmp_path: Path) -> None:
    store.take_in_hand("m1")
    store = reopened(store, tmp_path)
    assert store.take_in_hand("m1") == 1
    store.put_down("m1")
    store.put_down("m1")
    store = reopened(store, tmp_path)
    assert store.take_in_hand("m1") == 0
    store.close()


def test_the_first_life_has_no_bad_end_before_it(store: ShardStore) -> None:
    assert store.begin_life() is False


def test_a_life_without_an_end_was_cut_short(store: ShardStore, tmp_path: Path) -> None:
    store.begin_life()
    for _ in range(2):
        store = reopened(store, tmp_path)
        assert store.begin_life() is True
    store.end_life()
    store = reopened(store, tmp_path)
    assert store.begin_life() is False
    store = reopened(store, tmp_path)
    assert store.begin_life() is True
    store.close()


def test_pitfall_two_generations_of_a_shard_never_work_at_once(tmp_path: Path) -> None:
    first = lock_shard(tmp_path, "q3-join", 1)
    with pytest.raises(StateError, match=r"q3-join\.1 is being worked on by another process"):
        lock_shard(tmp_path, "q3-join", 1)
    others = [lock_shard(tmp_path, "q3-join", 0), lock_shard(tmp_path, "q4-top", 1)]
    os.close(first)
    os.close(lock_shard(tmp_path, "q3-join", 1))
    for descriptor in others:
        os.close(descriptor)


def test_a_lock_is_not_handed_down_to_children(tmp_path: Path) -> None:
    descriptor = lock_shard(tmp_path, "q3-join", 1)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_a_database_of_an_older_version_is_brought_up_to_date(tmp_path: Path) -> None:
    """From before tombstones told whose they are."""
    (tmp_path / "shards").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "shards/results-0.db")) as old, old:
        old.execute(
            "CREATE TABLE tombstones (client TEXT PRIMARY KEY, how TEXT NOT NULL,"
            " until INTEGER NOT NULL) WITHOUT ROWID"
        )
        old.execute("INSERT INTO tombstones VALUES ('c1', 'done', 9999999999)")
    for _ in range(2):
        store = ShardStore(tmp_path, "results", 0)
        rows = store.db.execute("SELECT client, how, owner FROM tombstones").fetchall()
        store.close()
        assert rows == [("c1", "done", "")]
