"""Dedup, numbering and outbox of a client change together, and survive every restart."""

import contextlib
import sqlite3
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from booksan.errors import StateError
from booksan.messages import Kind, Message, end_message
from booksan.state import outbox
from booksan.state.client import TAKING, ClientStore, Conflict, Verdict, database_path
from booksan.state.database import delete_database, open_reader, transaction
from booksan.transport.base import Outgoing
from tests.unit.test_spec import make_spec

NOW = 1_700_000_000.5
STREAMS = [("gateway/books", "books"), ("q3-join/0", "q3-join"), ("q3-join/1", "q3-join")]


def batch(seq: int, sender: str = "gateway/books", digest: str = "d") -> Message:
    return Message(make_spec(), sender, Kind.BATCH, seq, digest)


def end(length: int, sender: str = "gateway/books") -> Message:
    return end_message(make_spec(), sender, length)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return database_path(tmp_path, "client-1", "results", 2)


@pytest.fixture
def store(path: Path) -> Iterator[ClientStore]:
    made = made_at(path)
    yield made
    made.close()


def made_at(path: Path) -> ClientStore:
    store = ClientStore.begin(path, make_spec(), synchronous="OFF")
    with transaction(store.db):
        store.create("results", 2, STREAMS, NOW)
    return store


def reopened(store: ClientStore) -> ClientStore:
    store.close()
    again = ClientStore.open(store.path, synchronous="OFF")
    assert again is not None
    return again


def take(store: ClientStore, *messages: Message) -> list[str]:
    """Handles messages as a worker does; the inputs that are complete since."""
    with transaction(store.db):
        for message in messages:
            if store.judge(message) is Verdict.NEW:
                store.record(message, NOW)
        return store.newly_complete()


def test_every_client_and_shard_has_its_own_file(tmp_path: Path) -> None:
    path = database_path(tmp_path, "client-1", "q3-join", 2)
    assert path == tmp_path / "clients" / "client-1" / "q3-join-2.db"


def test_a_store_that_was_never_made_is_none(path: Path) -> None:
    assert ClientStore.open(path, synchronous="OFF") is None
    assert not path.exists()


def test_a_store_whose_making_was_cut_short_is_none_and_can_be_made_again(path: Path) -> None:
    store = ClientStore.begin(path, make_spec(), synchronous="OFF")
    with contextlib.suppress(KeyError), transaction(store.db):
        store.create("results", 2, STREAMS, NOW)
        raise KeyError
    store.close()
    assert path.exists()
    assert ClientStore.open(path, synchronous="OFF") is None
    again = made_at(path)
    assert again.judge(batch(0)) is Verdict.NEW
    again.close()


def test_a_store_remembers_its_spec_and_phase(store: ClientStore) -> None:
    assert store.made
    store.set_meta("phase", "ended")
    store.set_meta("cursor", None)
    again = reopened(store)
    assert (again.made, again.spec, again.phase) == (True, make_spec(), "ended")
    assert again.meta("cursor") is None
    assert again.meta("never set") is None
    again.close()


def test_a_new_store_is_taking(store: ClientStore) -> None:
    assert store.phase == TAKING
    assert not store.all_complete()


def test_a_stream_that_was_not_declared_is_refused(store: ClientStore) -> None:
    for sender in ("q3-join/2", "gateway/reviews", "q9/0"):
        with pytest.raises(StateError, match=f"expects nothing from {sender}"):
            store.judge(batch(0, sender))


def test_an_input_is_complete_when_all_of_its_streams_are(store: ClientStore) -> None:
    assert take(store, end(1)) == []
    assert take(store, batch(0)) == ["books"]
    assert take(store, batch(0, "q3-join/0"), end(1, "q3-join/0")) == []
    assert not store.all_complete()
    assert take(store, end(0, "q3-join/1")) == ["q3-join"]
    assert store.all_complete()


def test_an_input_becomes_complete_once(store: ClientStore) -> None:
    assert take(store, end(0)) == ["books"]
    assert take(store, end(0)) == []
    again = reopened(store)
    assert take(again, end(0)) == []
    again.close()


def test_two_inputs_can_become_complete_together(store: ClientStore) -> None:
    messages = [end(0), end(0, "q3-join/0"), end(0, "q3-join/1")]
    assert take(store, *messages) == ["books", "q3-join"]


def test_every_order_with_a_restart_after_each_message_completes_once(tmp_path: Path) -> None:
    history = (batch(0), batch(1), end(2), batch(0))
    for number, order in enumerate(permutations(history)):
        store = made_at(tmp_path / str(number) / "results-2.db")
        completed = []
        for message in order:
            completed += take(store, message)
            store = reopened(store)
        store.close()
        assert completed == ["books"]


def test_contradictions_are_found_after_a_restart(store: ClientStore) -> None:
    take(store, batch(0), batch(4), end(0, "q3-join/0"))
    again = reopened(store)
    for message in (batch(0, digest="other"), end(4), batch(0, "q3-join/0"), end(1, "q3-join/0")):
        with pytest.raises(Conflict):
            again.judge(message)
    assert again.judge(end(5)) is Verdict.NEW
    again.close()


def test_streams_of_different_senders_are_numbered_apart(store: ClientStore) -> None:
    take(store, batch(0, "q3-join/0", "one"))
    assert store.judge(batch(0, "q3-join/1", "other")) is Verdict.NEW


def test_pitfall_an_empty_batch_is_not_an_end(store: ClientStore) -> None:
    assert batch(0).body == b""
    assert take(store, batch(0)) == []
    assert take(store, end(2)) == []
    assert take(store, batch(1)) == ["books"]


def test_pitfall_a_repeat_of_an_older_message_does_not_count_twice(store: ClientStore) -> None:
    take(store, *(batch(seq) for seq in range(10)))
    assert all(store.judge(batch(seq)) is Verdict.REPEAT for seq in range(10))
    assert take(store, *(batch(seq) for seq in range(10)), end(11)) == []
    assert take(store, batch(10)) == ["books"]


def test_pitfall_numbers_are_numbers_after_a_restart(store: ClientStore) -> None:
    """Read back as texts they would never be found again, and 10 would be below 9."""
    take(store, *(batch(seq) for seq in (2, 9, 10)))
    again = reopened(store)
    assert [again.judge(batch(seq)) for seq in (2, 9, 10, 1)] == [Verdict.REPEAT] * 3 + [
        Verdict.NEW
    ]
    with pytest.raises(Conflict):
        again.judge(end(10))
    assert again.judge(end(11)) is Verdict.NEW
    again.close()


def test_pitfall_state_dedup_and_output_commit_together_or_not_at_all(store: ClientStore) -> None:
    store.db.execute("CREATE TABLE counts (n INTEGER)")

    def handle(*, crash: bool) -> None:
        with transaction(store.db):
            store.record(batch(0), NOW)
            store.record(end(1), NOW)
            store.newly_complete()
            store.db.execute("INSERT INTO counts VALUES (1)")
            seq = store.next_seq("results.0")
            store.post([Outgoing("results.0", b"%d" % seq)])
            store.set_meta("phase", "finishing")
            if crash:
                raise KeyError

    with pytest.raises(KeyError):
        handle(crash=True)
    assert store.judge(batch(0)) is store.judge(end(1)) is Verdict.NEW
    assert store.db.execute("SELECT count(*) FROM counts").fetchone() == (0,)
    assert (store.sent_to("results.0"), store.phase) == (0, TAKING)
    assert not outbox.waiting(store.db)
    handle(crash=False)
    assert store.judge(batch(0)) is store.judge(end(1)) is Verdict.REPEAT
    assert [posted.body for posted in next(outbox.chunks(store.db))] == [b"0"]


def test_pitfall_results_have_numbers_of_their_own_without_gaps(store: ClientStore) -> None:
    """Not those of the inputs: each stream to a queue counts 0, 1, 2, also after a restart."""
    take(store, batch(70), batch(80))
    assert [store.next_seq("results.0") for _ in range(3)] == [0, 1, 2]
    assert store.next_seq("q4-top.1") == 0
    again = reopened(store)
    assert again.next_seq("results.0") == 3
    assert (again.sent_to("results.0"), again.sent_to("q4-top.1")) == (4, 1)
    assert again.sent_to("never.0") == 0
    again.close()


def test_pitfall_restarts_do_not_write_what_they_recovered_again(store: ClientStore) -> None:
    take(store, batch(0), batch(1), end(2))
    before = list(store.db.iterdump())
    for _ in range(3):
        store = reopened(store)
    assert list(store.db.iterdump()) == before
    store.close()


def test_pitfall_a_look_up_in_dedup_does_not_scan_a_list(store: ClientStore) -> None:
    statements: list[str] = []
    store.db.set_trace_callback(statements.append)
    store.judge(batch(5))
    store.db.set_trace_callback(None)
    plans = [
        row[3]
        for statement in statements
        for row in store.db.execute(f"EXPLAIN QUERY PLAN {statement}")
    ]
    assert any("dedup" in plan for plan in plans)
    assert all(plan.startswith("SEARCH") for plan in plans)


def test_a_person_can_read_the_progress(store: ClientStore) -> None:
    take(store, batch(0), batch(2), end(3), end(0, "q3-join/0"))
    store.post([Outgoing("results.0", b"x")])
    reader = open_reader(store.path)
    reader.row_factory = sqlite3.Row
    rows = {row["sender"]: dict(row) for row in reader.execute("SELECT * FROM progress")}
    reader.close()
    assert list(rows) == [sender for sender, _ in STREAMS]
    assert rows["gateway/books"] == {
        "stage": "results",
        "shard": "2",
        "sender": "gateway/books",
        "batches": 2,
        "of_batches": 3,
        "complete": 0,
        "rows": 0,
        "bytes": 0,
        "moved": 1_700_000_000,
        "phase": TAKING,
        "outbox": 1,
    }
    assert [rows[f"q3-join/{shard}"]["complete"] for shard in (0, 1)] == [1, 0]


def test_a_reader_cannot_write(store: ClientStore) -> None:
    reader = open_reader(store.path)
    with pytest.raises(sqlite3.OperationalError):
        reader.execute("DELETE FROM dedup")
    reader.close()


def test_pitfall_the_state_of_a_finished_client_leaves_nothing_behind(store: ClientStore) -> None:
    take(store, batch(0))
    store.close()
    delete_database(store.path)
    delete_database(store.path)
    assert list(store.path.parent.iterdir()) == []


def test_a_database_of_an_older_version_is_brought_up_to_date(store: ClientStore) -> None:
    """From before published messages were kept: all that wait were posted since."""
    take(store, batch(0))
    store.post([Outgoing("q4-top.0", b"body")])
    for statement in ("DROP VIEW progress", "DROP TABLE published", "DROP TABLE repeats"):
        store.db.execute(statement)
    store.db.execute("CREATE VIEW progress AS SELECT sender, received AS batches FROM streams")
    again = reopened(store)
    row = again.db.execute("SELECT batches, outbox FROM progress WHERE sender = 'gateway/books'")
    assert row.fetchone() == (1, 1)
    assert outbox.waiting(again.db)
    again.close()
