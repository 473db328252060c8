"""Letters that are replayed, databases that are damaged, uploads that stop: runs end in order."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from booksan.messages import Message
from booksan.spec import Spec
from booksan.stages.operator import Context
from booksan.stages.operators import Filter, Tally
from booksan.state.client import database_path
from booksan.state.readers import failures as failures_at
from booksan.transport.base import Outgoing
from booksan.worker import failures
from booksan.worker.shard import POINTS
from tests.simulation.world import CrashAt, World
from tests.support.data import sample, shards

MakeWorld = Callable[..., World]

DATA = sample(5)
OTHER = sample(6)


class Poison:
    """Some messages of a client raise until a fix is installed."""

    def __init__(self, patch: pytest.MonkeyPatch, is_bad: Callable[[Message], bool]) -> None:
        self.fixed = False
        prepare = Tally.prepare

        def digest(operator: Tally, message: Message) -> object:
            if not self.fixed and operator.place.stage == "q3-join" and is_bad(message):
                raise ValueError("cannot digest this")
            return prepare(operator, message)

        patch.setattr(Tally, "prepare", digest)


def letters(world: World) -> list[Path]:
    return sorted(world.root.glob("letters/*/*.msg"))


def replay(world: World) -> None:
    """What `booksan letters replay` does: the very bytes go back to their queue."""
    for path in letters(world):
        stage, _, shard = path.parent.name.rpartition("-")
        world.transport.publish([Outgoing(f"{stage}.{shard}", path.read_bytes())])


def to_the_end(world: World) -> None:
    """Sends everything, also of a client that has failed, as one that does not look would."""
    for _ in range(100_000):
        unsent = any(client.source < 2 for client in world.clients.values())
        if not unsent and not world.transport.waiting():
            world.drain()
            return
        world._step()
    raise AssertionError("no end in sight")


def poisoned(make_world: MakeWorld, seed: int = 5, **options: object) -> World:
    world = make_world(seed, **options)
    world.add_client(DATA.spec("one", shards(1)), DATA.batches)
    world.add_client(OTHER.spec("two", shards(1)), OTHER.batches)
    return world


def is_bad(message: Message) -> bool:
    return message.client == "one" and message.input == "reviews" and message.seq in (0, 2)


def leave(world: World) -> None:
    for client in list(world.clients):
        world.release(client)
    world.drain()
    assert list((world.root / "clients").iterdir()) == []
    assert letters(world) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_replayed_letter_heals_the_run(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    poison = Poison(monkeypatch, is_bad)
    world = poisoned(make_world, seed, repeats=0.2)
    to_the_end(world)
    assert "cannot digest this" in str(world.failure("one"))
    assert world.failure("two") is None
    assert len(letters(world)) == 2
    poison.fixed = True
    replay(world)
    world.drain()
    assert world.failure("one") is None
    assert world.answers("one") == DATA.answers
    assert world.answers("two") == OTHER.answers
    leave(world)


def test_a_letter_replayed_before_the_fix_fails_the_run_again(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = Poison(monkeypatch, is_bad)
    world = poisoned(make_world, repeats=0.2)
    to_the_end(world)
    for _ in range(3):
        replay(world)
        world.drain()
        assert "cannot digest this" in str(world.failure("one"))
    poison.fixed = True
    replay(world)
    world.drain()
    assert world.failure("one") is None
    assert world.answers("one") == DATA.answers
    leave(world)


@pytest.mark.parametrize("point", [p for p in POINTS if p != "permit-in-transaction"])
def test_a_worker_killed_around_a_replay_changes_nothing(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    poison = Poison(monkeypatch, is_bad)
    world = poisoned(make_world)
    to_the_end(world)
    poison.fixed = True
    passed = world.hits["q3-join.0", point]
    world.crashes = {CrashAt("q3-join.0", point, passed + nth) for nth in (1, 2, 4)}
    replay(world)
    world.drain()
    assert world.failure("one") is None
    assert world.answers("one") == DATA.answers
    leave(world)


def test_a_client_with_too_many_letters_has_failed_for_good(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_LETTERS", 2)
    Poison(monkeypatch, lambda message: message.client == "one" and message.input == "reviews")
    world = poisoned(make_world)
    to_the_end(world)
    assert world.failure("one") is not None
    worker = world._life("q3-join.0")
    assert worker is not None
    assert worker.store.is_failed("one")
    assert world.answers("two") == OTHER.answers
    leave(world)


def test_a_letter_outlives_a_restart_of_a_worker_that_could_not_even_begin(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with hosts of different versions: the fix is a restart, then the letter is replayed."""
    begin = Tally.at

    def refuse(operator: Tally, place: Context, db: sqlite3.Connection) -> Tally:
        if place.spec.client == "one" and place.stage == "q3-join":
            raise ValueError("another version")
        return begin(operator, place, db)

    monkeypatch.setattr(Tally, "at", refuse)
    world = poisoned(make_world)
    world.drain()
    while not letters(world):
        world._step()
    monkeypatch.setattr(Tally, "at", begin)
    worker = world._life("q3-join.0")
    assert worker is not None
    world._bury("q3-join.0", worker)
    world.drain()
    replay(world)
    to_the_end(world)
    assert world.failure("one") is None
    assert world.answers("one") == DATA.answers
    leave(world)


# -- damaged databases -----------------------------------------------------------------------------


def halfway(make_world: MakeWorld, spec: Spec | None = None) -> World:
    """A world whose client has sent all its books and may send reviews."""
    world = make_world(5)
    world.add_client(spec or DATA.spec("one", shards(1)), DATA.batches)
    for _ in range(10_000):
        if world.clients["one"].source == 1:
            break
        world._step()
    world.drain()
    return world


def damage(world: World, name: str) -> None:
    """The worker is killed, and its disk is not what it was when it comes back."""
    worker = world._life(name)
    assert worker is not None
    world._bury(name, worker)
    stage, _, shard = name.rpartition(".")
    path = database_path(world.root, "one", stage, int(shard))
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(b"not a database at all" * 1000)


def test_a_damaged_database_fails_the_run_at_its_home(make_world: MakeWorld) -> None:
    world = halfway(make_world)
    damage(world, "q3-join.0")
    to_the_end(world)
    assert "q3-join.0: cannot be read: file is not a database" in str(world.failure("one"))


def test_a_database_that_is_damaged_under_a_worker_never_stops_its_clock(
    make_world: MakeWorld,
) -> None:
    world = halfway(make_world)
    worker = world._life("q2-decades.0")
    assert worker is not None
    worker.handler.forget_sessions()
    path = database_path(world.root, "one", "q2-decades", 0)
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(b"not a database at all" * 1000)
    worker.handler.cleanup.expire()
    assert worker.store.is_failed("one")
    # No more messages come here, so nobody brings the spec: whoever looks at the host finds it.
    to_the_end(world)
    reason = failures_at(world.root, "one")[0]
    assert "q2-decades.0: cannot be read" in reason


def test_a_damaged_run_can_be_cancelled_and_leaves_nothing(make_world: MakeWorld) -> None:
    world = halfway(make_world)
    damage(world, "q3-join.0")
    world.drain()
    world.release("one", "cancelled")
    world.drain()
    assert list((world.root / "clients").iterdir()) == []


# -- uploads that stop -----------------------------------------------------------------------------


@pytest.fixture
def idler(make_world: MakeWorld) -> World:
    """A world whose client may idle for a minute."""
    return halfway(make_world, replace(DATA.spec("one", shards(1)), idle=60))


def test_an_upload_that_stops_is_given_up_everywhere(idler: World) -> None:
    idler.sleep(59)
    idler.tick()
    assert idler.views["one"].status() is not None
    idler.sleep(2)
    idler.tick()
    idler.views["one"].close()
    assert list((idler.root / "clients").iterdir()) == []
    assert idler.views["one"].how_gone() == "idle"


def test_letters_of_a_shard_without_a_database_end_with_their_client(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(operator: Filter, message: Message) -> object:
        raise ValueError("cannot filter this")

    monkeypatch.setattr(Filter, "transform", refuse)
    world = halfway(make_world)
    assert letters(world)
    world.tick()
    assert letters(world)
    world.sleep(DATA.spec("one", shards(1)).expires + 1 - world.now)
    world.tick()
    assert letters(world) == []
    assert world._life("q1-filter.0").store.clients_with_letters() == set()  # type: ignore[union-attr]


def test_a_run_whose_upload_is_complete_is_never_idle(idler: World) -> None:
    to_the_end(idler)
    idler.sleep(3600)
    idler.tick()
    assert idler.answers("one") == DATA.answers


def test_what_a_late_reader_left_of_a_gone_client_is_swept(make_world: MakeWorld) -> None:
    world = halfway(make_world)
    world.release("one", "cancelled")
    world.drain()
    leftover = database_path(world.root, "one", "q3-join", 0)
    leftover.parent.mkdir()
    leftover.with_name(f"{leftover.name}-wal").touch()
    world.tick()
    assert list((world.root / "clients").iterdir()) == []
