"""`booksan letters` and `booksan inspect`: what a person sees of trouble, and does about it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from booksan.datasets import dataset_named
from booksan.errors import UsageError
from booksan.messages import Kind, Message, digest_of, encode, to_body
from booksan.operate.inspect import inspect_clients
from booksan.operate.letters import (
    DataDirectory,
    DeadLetter,
    choose,
    data_directories,
    find_letters,
    remove,
    replay,
)
from booksan.spec import Spec
from booksan.state.client import ClientStore, database_path
from booksan.state.database import transaction
from booksan.transport import Outgoing, Spool
from booksan.worker.failures import keep_letter
from tests.support.command import Place, wait_until
from tests.support.hosts import command, place_for_hosts

BOOKS = dataset_named("books")

SHARDS = {stage.name: 1 for stage in BOOKS.stages}
SPEC = Spec("c1", "books", BOOKS.version, BOOKS.defaults, {}, SHARDS, int(time.time()) + 3600)
BOOK = {"title": ["T"], "authors": [["A"]], "publisher": ["P"], "categories": [["C"]]}


def batch(seq: int, spec: Spec = SPEC) -> bytes:
    frame = pl.DataFrame(BOOK).with_columns(year=pl.lit(2001, pl.Int32))
    digest = digest_of(spec.digest, seq)
    data = {"rows": frame.height}
    return encode(Message(spec, "gateway/books", Kind.BATCH, seq, digest, data, to_body(frame)))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("BOOKSAN_QUEUES", raising=False)
    with place_for_hosts(tmp_path) as found:
        yield found


def make_run(place: Place, name: str = "r1") -> Path:
    root = place.state / "booksan" / "runs" / name
    root.mkdir(parents=True)
    (root / "run.json").write_text("{}")
    return root


def make_host(place: Place, name: str, queues: str) -> Path:
    root = place.state / "booksan" / "hosts" / "single" / name
    root.mkdir(parents=True)
    (root / "host.json").write_text("{}")
    (root / "queues-address").write_text(queues)
    return root


def make_cluster(place: Place, queues: str) -> Path:
    directory = place.state / "booksan" / "clusters" / "two"
    root = directory / "hosts" / "alpha"
    root.mkdir(parents=True)
    host = {"id": 1, "address": "", "gateway": "", "data_dir": str(root), "process": None}
    record: dict[str, Any] = {"name": "two", "topology": {}, "queues": queues, "moved": False}
    record |= {"hosts": {"alpha": host}, "broker": None, "ports": {}}
    (directory / "cluster.json").write_text(json.dumps(record))
    return root


def waiting(root: Path, queue: str) -> list[bytes]:
    with Spool(root) as spool, spool.consume(queue) as consumer:
        return [delivery.body for delivery in consumer.receive(10, 1 << 20, 0)]


def letters() -> list[DeadLetter]:
    return find_letters(data_directories())


# -- finding ---------------------------------------------------------------------------------


def test_letters_of_runs_hosts_and_clusters_are_found(place: Place) -> None:
    assert letters() == []
    roots = [make_run(place), make_host(place, "h", "spool:/q"), make_cluster(place, "spool:/q")]
    for number, root in enumerate(roots):
        keep_letter(root, "q1-filter", 0, batch(number), f"trouble {number}")
    found = letters()
    assert {letter.directory.path for letter in found} == set(roots)
    assert {(letter.client, letter.sender, letter.seq) for letter in found} == {
        ("c1", "gateway/books", number) for number in range(3)
    }
    cluster = place.state / "booksan/clusters/two"
    assert [one.path for one in data_directories([cluster])] == [roots[2]]
    assert data_directories([roots[2]]) == data_directories([cluster])
    with pytest.raises(UsageError, match="is not a data directory of booksan"):
        data_directories([place.root])


def test_letters_are_listed_and_shown_with_error_and_rows(place: Place) -> None:
    keep_letter(make_run(place), "q1-filter", 0, batch(7), "ValueError: the moon is full")
    listed = command(place, "letters", "list", "--json")
    (about,) = json.loads(listed.out)["letters"]
    assert (about["client"], about["seq"]) == ("c1", 7)
    shown = command(place, "letters", "show", about["id"][:8])
    assert shown.code == 0
    for word in ("the moon is full", "gateway/books", about["id"], "publisher", "2001"):
        assert word in shown.out
    table = command(place, "letters", "list", env={"COLUMNS": "200"})
    assert about["id"][:12] in table.out


def test_what_is_no_message_is_listed_and_shown_too(place: Place) -> None:
    keep_letter(make_run(place), "q1-filter", 0, b"rubbish", "MessageError: rubbish")
    (letter,) = letters()
    assert letter.client is None
    shown = command(place, "letters", "show", letter.id)
    assert "cannot be read" in shown.out


def test_letters_are_chosen_by_the_beginning_of_their_ids(place: Place) -> None:
    root = make_run(place)
    for seq in range(20):
        keep_letter(root, "q1-filter", 0, batch(seq), "trouble")
    found = letters()
    assert choose(found, [found[0].id[:10], found[0].id], every=False) == [found[0]]
    assert choose(found, [], every=True) == found
    with pytest.raises(UsageError, match="no letter begins with 'xyz'"):
        choose(found, ["xyz"], every=False)
    with pytest.raises(UsageError, match="several letters begin with ''"):
        choose(found, [""], every=False)
    for wanted, every in (([], False), ([found[0].id], True)):
        with pytest.raises(UsageError, match="--all"):
            choose(found, wanted, every=every)


# -- doing -----------------------------------------------------------------------------------


def test_a_replayed_letter_has_the_very_same_bytes_in_the_queues_of_its_host(place: Place) -> None:
    run, queues = make_run(place), place.root / "queues of mine"
    host = make_host(place, "h", f"spool:{str(queues).replace(' ', '%20')}")
    keep_letter(run, "q1-filter", 0, batch(1), "trouble")
    keep_letter(host, "q3-join", 2, batch(2), "trouble")
    for letter in letters():
        replay(letter)
    assert waiting(run, "q1-filter.0") == [batch(1)]
    assert waiting(queues, "q3-join.2") == [batch(2)]


def test_queues_with_a_password_are_asked_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = DataDirectory(place.root, "amqp://me:***@host/#x")
    with pytest.raises(UsageError, match="set BOOKSAN_QUEUES"):
        unknown.reachable_queues()
    monkeypatch.setenv("BOOKSAN_QUEUES", "spool:/q")
    assert unknown.reachable_queues() == "spool:/q"


def test_a_removed_letter_is_gone_for_good(place: Place) -> None:
    root = make_run(place)
    for seq in range(2):
        keep_letter(root, "q1-filter", 0, batch(seq), "trouble")
    first, second = letters()
    remove(first)
    assert letters() == [second]
    done = command(place, "letters", "remove", "--all")
    assert "client c1 stays failed" in done.out
    assert not list(root.glob("letters/*/*.*"))


#: Put before the worker's own modules: reading rows fails as long as a file is there.
TROUBLE = """
import os
import booksan.messages
read = booksan.messages.to_frame
def to_frame(body):
    if os.path.exists({flag!r}):
        raise ValueError("the moon is full")
    return read(body)
booksan.messages.to_frame = to_frame
"""


def test_a_worker_puts_a_replayed_letter_away_when_it_can_handle_it(place: Place) -> None:
    flag = place.root / "moon"
    flag.touch()
    modules = place.root / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(TROUBLE.format(flag=str(flag)))
    words = ["host", "--stages", "q1-filter", "--no-gateway"]
    with place.started(words, env={"PYTHONPATH": str(modules)}) as process:
        spool = place.state / "booksan/hosts/single/spool"
        wait_until(lambda: (spool / "queues/q1-filter.0/lock").exists())
        with Spool(spool) as queues:
            queues.publish([Outgoing("q1-filter.0", batch(0))])
        wait_until(letters)
        (letter,) = letters()
        assert "the moon is full" in letter.error
        flag.unlink()
        done = command(place, "letters", "replay", letter.id[:6])
        assert done.out == f"{letter.id} was sent to q1-filter.0 again\n", done.err
        wait_until(lambda: not letters())
        process.terminate()
        assert place.ended(process).code == 0
    assert len(waiting(spool, "results.0")) >= 1


# -- inspecting ------------------------------------------------------------------------------


def give_client(root: Path) -> None:
    """Batches 0 and 2 of four have come."""
    path = database_path(root, "c1", "q3-join", 0)
    store = ClientStore.begin(path, SPEC, synchronous="OFF")
    with transaction(store.db):
        store.create("q3-join", 0, [("gateway/books", "books")], time.time())
        store.db.executemany("INSERT INTO dedup VALUES ('gateway/books', ?, 'd')", [(0,), (2,)])
        store.db.execute("UPDATE streams SET received = 2, length = 4, highest = 2")
        store.post([Outgoing("q4-top.0", b"a message")])
    store.close()


def test_inspect_tells_progress_gaps_letters_and_failures(place: Place) -> None:
    root = make_run(place)
    give_client(root)
    keep_letter(root, "q3-join", 0, batch(1), "trouble")
    damaged = root / "clients" / "c1" / "q2-decades-0.db"
    damaged.write_bytes(b"no database at all, but long enough to be read as one" * 20)
    done = command(place, "inspect", "c1", "--json")
    assert done.code == 0, done.err
    (client,) = json.loads(done.out)["clients"]
    (stream,) = client["progress"]
    assert (stream["batches"], stream["of_batches"], stream["outbox"]) == (2, 4, 1)
    assert stream["missing"] == [1, 3]
    assert stream["dedup"] == 2
    assert [letter["error"] for letter in client["letters"]] == ["trouble"]
    assert any("q2-decades-0" in reason for reason in client["failures"])
    shown = command(place, "inspect", env={"COLUMNS": "200"})
    for word in ("c1", "q3-join.0", "1 3", "dead letter", "damaged"):
        assert word in shown.out
    unknown = command(place, "inspect", "c9")
    assert unknown.code == 2
    assert "no unfinished client 'c9'" in unknown.message


def test_without_clients_there_is_nothing_to_inspect(place: Place) -> None:
    assert inspect_clients(data_directories(), None) == []
    assert "no unfinished clients" in command(place, "inspect").out
