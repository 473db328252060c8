"""The answers are the oracle's, whatever the order, the shards, the batches and the repeats."""

from collections.abc import Callable

import pytest

from booksan import heartbeat
from booksan.heartbeat import Heartbeats
from booksan.messages import Message
from booksan.stages.operators import Filter, Means
from tests.simulation.world import World
from tests.support.data import Sample, sample, shards

MakeWorld = Callable[..., World]

#: Bytes of a batch: one row each, a few rows, and the whole file.
BATCH_BYTES = (1, 5_000, 100_000_000)


def assert_right(world: World, client: str, expected: Sample) -> None:
    assert world.failure(client) is None
    assert world.answers(client) == expected.answers
    for source, rows in expected.rejected.items():
        assert [row for row, _ in world.rejected(client, source)] == rows


@pytest.mark.parametrize("dirty", [False, True], ids=["clean", "dirty"])
@pytest.mark.parametrize("batch_bytes", BATCH_BYTES)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_any_batches_gives_the_oracles_answers(
    make_world: MakeWorld, seed: int, count: int, batch_bytes: int, dirty: bool
) -> None:
    data = sample(seed, books=40, reviews=40, dirty=dirty, batch_bytes=batch_bytes)
    world = make_world(seed, repeats=0.2)
    world.add_client(data.spec("one", shards(count)), data.batches)
    world.run()
    assert_right(world, "one", data)


def test_rejected_rows_and_reasons_do_not_depend_on_the_batch_size(make_world: MakeWorld) -> None:
    found = []
    for batch_bytes in BATCH_BYTES:
        data = sample(3, books=60, reviews=80, dirty=True, batch_bytes=batch_bytes)
        world = make_world(1)
        world.add_client(data.spec("one", shards(1)), data.batches)
        world.run()
        found.append([world.rejected("one", source) for source in ("books", "reviews")])
    assert found[0] == found[1] == found[2]
    assert found[0][0]
    assert found[0][1]


@pytest.mark.parametrize("seed", range(3))
def test_two_clients_at_once_each_get_their_own_answers(make_world: MakeWorld, seed: int) -> None:
    first, second = sample(10 + seed), sample(20 + seed, books=60, dirty=True)
    world = make_world(seed, repeats=0.1)
    world.add_client(first.spec("first", shards(2, 2)), first.batches)
    world.add_client(second.spec("second", shards(2, 2)), second.batches)
    world.run()
    assert_right(world, "first", first)
    assert_right(world, "second", second)


def test_files_without_rows_give_empty_answers(make_world: MakeWorld) -> None:
    data = sample(1, books=0, reviews=0)
    world = make_world(1)
    world.add_client(data.spec("one", shards(2)), {"books": (), "reviews": ()})
    world.run()
    assert world.answers("one") == data.answers


@pytest.mark.parametrize("client", ["one", "two", "three"])
def test_a_released_client_leaves_nothing_but_tombstones(
    make_world: MakeWorld, client: str
) -> None:
    data = sample(2)
    world = make_world(2, repeats=0.3)
    world.add_client(data.spec(client, shards(2, 3)), data.batches)
    world.run()
    old = list(world.transport.published)
    world.release(client)
    world.drain()
    assert list((world.root / "clients").iterdir()) == []
    # Late copies of everything that was ever sent cannot bring it back.
    world.transport.publish(old)
    world.drain()
    assert list((world.root / "clients").iterdir()) == []


@pytest.mark.parametrize(
    ("operator", "work"), [(Means, "prepare"), (Filter, "transform")], ids=["q5", "q1"]
)
def test_a_worker_gives_a_sign_of_life_before_each_message(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, operator: type, work: str
) -> None:
    """A group of messages can take longer than a supervisor bears silence."""
    heartbeats = Heartbeats(1)
    monkeypatch.setattr(heartbeat._Own, "heartbeats", heartbeats)
    beats: list[float] = []
    original = getattr(operator, work)

    def watched(self: object, message: Message) -> object:
        beats.append(heartbeats.last(0))
        return original(self, message)

    monkeypatch.setattr(operator, work, watched)
    data = sample(1, books=40, reviews=40, batch_bytes=500)
    world = make_world(1)
    world.add_client(data.spec("one", shards(1)), data.batches)
    world.run()
    assert len(beats) > 5
    assert len(set(beats)) == len(beats)
