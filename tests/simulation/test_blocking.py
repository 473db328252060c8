"""One client cannot block another: what cannot be finished fails, and the rest goes on."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from booksan import datasets as known_datasets
from booksan.errors import UsageError
from booksan.stages.operator import Piece
from booksan.stages.operators import Tally
from booksan.state.client import database_path
from booksan.worker import cleanup, handler
from tests.simulation.world import SETTINGS, Killed, World
from tests.support.data import sample, shards

MakeWorld = Callable[..., World]

DATA = sample(5)
OTHER = sample(6)


class Deadly:
    """The final output of one client at q2-decades kills the worker, in every life."""

    def __init__(self, patch: pytest.MonkeyPatch, client: str = "bad") -> None:
        self.tries = 0
        final = Tally.final

        def die(operator: Tally, cursor: str | None) -> Piece:
            if operator.place.spec.client == client and operator.place.stage == "q2-decades":
                self.tries += 1
                raise Killed
            return final(operator, cursor)

        patch.setattr(Tally, "final", die)


def both(make_world: MakeWorld, *, idle: int = 0) -> World:
    """`idle`: seconds after which the bad client is given up if it sends nothing; 0 for never."""
    world = make_world(5)
    world.add_client(replace(DATA.spec("bad", shards(1)), idle=idle), DATA.batches)
    world.add_client(OTHER.spec("good", shards(1)), OTHER.batches)
    return world


def test_a_final_output_that_kills_fails_its_client_and_no_other(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = Deadly(monkeypatch)
    world = both(make_world)
    world.run()
    assert world.answers("good") == OTHER.answers
    assert "q2-decades.0: the worker died or hung again and again" in str(world.failure("bad"))
    # The first death comes before anybody is suspected.
    assert deadly.tries == SETTINGS.max_deaths + 1
    world.release("bad", "cancelled")
    world.release("good")
    world.drain()
    assert list((world.root / "clients").iterdir()) == []


def test_hangs_are_counted_sooner(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes a minute."""
    monkeypatch.setattr("booksan.worker.loop.has_hung", lambda: True)
    deadly = Deadly(monkeypatch)
    world = both(make_world)
    world.run()
    assert world.answers("good") == OTHER.answers
    assert world.failure("bad") is not None
    assert deadly.tries == 4


def test_a_client_that_kills_can_be_cancelled_in_between(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = Deadly(monkeypatch)
    world = both(make_world)
    while not deadly.tries:
        world._step()
    world.release("bad", "cancelled")
    world.clients.pop("bad")
    world.run()
    world.drain()
    assert deadly.tries < SETTINGS.max_deaths
    assert world.answers("good") == OTHER.answers
    assert not (world.root / "clients" / "bad").exists()


def test_a_client_that_kills_expires_all_the_same(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = Deadly(monkeypatch)
    world = make_world(5)
    spec = replace(DATA.spec("bad", shards(1)), expires=int(world.now) + 3600)
    world.add_client(spec, DATA.batches)
    while not deadly.tries:
        world._step()
    world.views["bad"].close()
    world.sleep(3601)
    home = world._life("results.0")
    assert home is not None
    home.handler.tick()
    world.drain()
    assert list((world.root / "clients").iterdir()) == []


def test_messages_of_others_go_before_work_that_may_kill(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a death the work in doubt waits until the queue is empty, or for its turn."""
    deadly = Deadly(monkeypatch)
    world = make_world(5)
    world.add_client(DATA.spec("bad", shards(1)), DATA.batches)
    while not deadly.tries:
        world._step()
    world.add_client(OTHER.spec("good", shards(1)), OTHER.batches)
    queue = world.transport.queues.setdefault("q2-decades.0", {})
    while len(queue) < 3:
        world._work("results.0")
        world._act(world.clients["good"])
    tries, waiting = deadly.tries, len(queue)
    world._life("q2-decades.0")
    while queue:
        world._work("q2-decades.0")
    assert (waiting >= 3, deadly.tries) == (True, tries)


def test_sessions_are_bounded_and_closed_when_they_are_done(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(5)
    monkeypatch.setattr("tests.simulation.world.SETTINGS", replace(SETTINGS, max_sessions=2))
    for number in range(5):
        world.add_client(DATA.spec(f"c{number}", shards(1)), DATA.batches)
    most = 0
    for _ in range(100_000):
        if all(world._done(client) for client in world.clients.values()):
            break
        world._step()
        lives = [worker for worker in world.workers.values() if worker is not None]
        most = max(most, *(len(worker.handler.sessions) for worker in lives), 0)
    world.drain()
    assert most == 2
    for number in range(5):
        assert world.answers(f"c{number}") == DATA.answers
    for worker in world.workers.values():
        assert worker is not None
        assert not worker.handler.sessions
        assert not worker.handler.due


# -- trouble of one client at the clock's tick -----------------------------------------------------


def damage_page(path: Path, table: str) -> None:
    """The first page of the table; all others are whole, so that the database opens."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (size,) = db.execute("PRAGMA page_size").fetchone()
    (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    db.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize("stage", ["results", "q2-decades"])
@pytest.mark.parametrize("table", ["meta", "streams"])
@pytest.mark.parametrize("idle", [0, 3600])
def test_a_damaged_page_is_the_trouble_of_its_client_alone(
    make_world: MakeWorld, stage: str, table: str, idle: int
) -> None:
    """A home reads more of a client that may be idle; of another it knows the end by then."""
    world = both(make_world, idle=idle)
    for _ in range(60):
        world._step()
    world.drain()
    world.tick()
    worker = world._life(f"{stage}.0")
    assert worker is not None
    worker.handler.forget_sessions()
    world.views["bad"].close()
    damage_page(database_path(world.root, "bad", stage, 0), table)
    world.sleep(60)
    world.tick()
    world.clients.pop("bad")
    world.run()
    assert world.answers("good") == OTHER.answers


@pytest.mark.parametrize("how", ["expired", "idle"])
def test_a_data_set_that_was_removed_stops_no_worker(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    world = both(make_world)
    if how == "idle":
        while not world.clients["bad"].sent:
            world._step()
        world.clients.pop("bad")
    world.run()
    world.drain()
    named = known_datasets.dataset_named
    removed = replace(DATA.spec("bad", shards(1)), dataset="removed")
    expires = int(world.now) + 60
    missing = replace(removed, idle=60) if how == "idle" else replace(removed, expires=expires)
    for stage in shards(1):
        path = database_path(world.root, "bad", stage, 0)
        if path.exists():
            db = sqlite3.connect(path)
            db.execute("UPDATE meta SET value = ? WHERE key = 'spec'", (missing.json,))
            db.commit()
            db.close()

    def without(name: str) -> object:
        if name == "removed":
            raise UsageError("no data set 'removed'")
        return named(name)

    for module in (handler, cleanup):
        monkeypatch.setattr(module, "dataset_named", without)
    world.views["bad"].close()
    for name, worker in world.workers.items():
        assert worker is not None
        world._bury(name, worker)
    world.drain()
    world.tick()
    world.sleep(61)
    world.tick()
    assert not (world.root / "clients" / "bad").exists()
    assert world.answers("good") == OTHER.answers


# -- begun anew ------------------------------------------------------------------------------------


def begin_anew(world: World, client: str, generation: int) -> None:
    spec = replace(world.clients[client].spec, generation=generation)
    batches = world.clients[client].batches
    del world.clients[client]
    world.views[client].close()
    world.add_client(spec, batches)


@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_is_begun_anew_gives_its_answers_and_the_old_one_is_late(
    make_world: MakeWorld, seed: int
) -> None:
    world = make_world(seed, repeats=0.2)
    world.add_client(DATA.spec("one", shards(2)), DATA.batches)
    world.add_client(OTHER.spec("two", shards(2)), OTHER.batches)
    for _ in range(20 + 30 * seed):
        world._step()
    begin_anew(world, "one", 1)
    # Late ones of the generation before come at any time.
    for message in world.transport.published[: 10 * seed]:
        world.transport.publish([message])
    world.run_healing(600)
    world.drain()
    assert world.failure("one") is None
    assert world.answers("one") == DATA.answers
    assert world.answers("two") == OTHER.answers
    for client in ("one", "two"):
        world.release(client)
    world.drain()
    assert list((world.root / "clients").iterdir()) == []


def lose_disk(world: World, name: str) -> None:
    """The worker is killed and comes back on an empty disk."""
    worker = world._life(name)
    assert worker is not None
    world.views["one"].close()
    world._bury(name, worker)
    stage, _, shard = name.rpartition(".")
    for path in world.root.rglob(f"{stage}-{shard}.*"):
        path.unlink()


def test_a_home_that_lost_its_disk_hears_of_failures_and_is_begun_anew(
    make_world: MakeWorld,
) -> None:
    world = make_world(4)
    world.add_client(DATA.spec("one", shards(1)), DATA.batches)
    for _ in range(90):
        world._step()
    lose_disk(world, "results.0")
    begin_anew(world, "one", 1)
    world.run_healing(600)
    assert world.failure("one") is None
    assert world.answers("one") == DATA.answers


def test_a_failure_that_the_home_has_lost_reaches_it_again(make_world: MakeWorld) -> None:
    world = make_world(4)
    world.add_client(DATA.spec("one", shards(1)), DATA.batches)
    while world.clients["one"].source == 0:
        world._step()
    world.drain()
    worker = world._life("q3-join.0")
    assert worker is not None
    worker.handler.failures.fail(world.clients["one"].spec, "it broke")
    world.transport.queues["results.0"].clear()
    assert world.failure("one") is None
    world.run_healing(600)
    assert world.failure("one") == "q3-join.0: it broke"


def test_a_join_that_lost_its_disk_says_what_happened(make_world: MakeWorld) -> None:
    world = make_world(4)
    world.add_client(DATA.spec("one", shards(1)), DATA.batches)
    while world.clients["one"].source == 0:
        world._step()
    world.drain()
    lose_disk(world, "q3-join.0")
    world.run()
    assert "q3-join.0: rows to join came before books was complete" in str(world.failure("one"))
    assert "was its disk replaced?" in str(world.failure("one"))
