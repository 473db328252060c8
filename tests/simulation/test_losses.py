"""A message that was confirmed and is lost all the same: the run ends right, or says why not.

Every case loses one message for good, of any kind and on any stream, and the client does what a
client does. Nobody waits longer than five minutes.
"""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from booksan.messages import Control, Kind, decode
from booksan.spec import HOME
from booksan.state.client import database_path
from booksan.state.shard import EXPIRY_MARGIN
from tests.simulation.world import World, home_queue
from tests.support.data import Sample, sample, shards, shards_of
from tests.support.sets import sample_of

Record = Callable[[str, object], None]

#: Seconds in which a run must go on.
LIMIT = 300
DATA = sample(7, books=24, reviews=30, batch_bytes=9_000)


def run_case(data: Sample, keyed: int, lost: set[int], seed: int = 7) -> World:
    world = World(seed)
    try:
        world.add_client(data.spec("one", shards_of(data.dataset, keyed)), data.batches)
        world.transport.lost = {number for number in lost if number} or set()
        if 0 in lost:
            world.transport.queues.clear()
        world.run_healing(LIMIT)
        assert world.failure("one") is None
        assert world.answers("one") == data.answers
    finally:
        world.close()
    return world


def kind_of(world: World, number: int) -> str:
    message = decode(world.transport.published[number].body)
    if message.control is not None:
        return message.control.value
    stage = world.transport.published[number].queue.rpartition(".")[0]
    return f"{message.kind.value} {message.input} to {stage}"


def test_any_message_of_books_may_be_lost(record_property: Record) -> None:
    count = len(run_case(DATA, 1, set()).transport.published)
    kinds: Counter[str] = Counter()
    for number in range(count):
        world = run_case(DATA, 1, {number})
        kinds[kind_of(world, number)] += 1
    assert {Control.CREATED.value, Control.COMPLETE.value} <= set(kinds)
    assert {kind.partition(" ")[0] for kind in kinds} >= {Kind.BATCH.value, Kind.END.value}
    record_property("lost messages, simulated", f"{count} of {len(kinds)} kinds")


@pytest.mark.parametrize("name", ["books", "flights", "aoe2", "steam"])
def test_messages_of_every_data_set_may_be_lost_between_many_shards(name: str) -> None:
    data = sample_of(name, 7, rows=30)
    count = len(run_case(data, 2, set()).transport.published)
    for number in random.Random(name).sample(range(count), 12):
        run_case(data, 2, {number})


@pytest.mark.parametrize("seed", range(3))
def test_half_of_a_run_may_be_lost(seed: int) -> None:
    """A queue that was deleted with all that it held, and more than one."""
    count = len(run_case(DATA, 2, set()).transport.published)
    run_case(DATA, 2, set(random.Random(seed).sample(range(count), count // 2)))


@pytest.mark.parametrize("stage", [HOME, "q3-join", "q4-top", "q1-filter"])
def test_a_queue_may_be_lost_with_all_that_it_holds(stage: str) -> None:
    world = World(3)
    try:
        world.add_client(DATA.spec("one", shards(2)), DATA.batches)
        for _ in range(150):
            world._step()
            for queue in list(world.transport.queues):
                if queue.rpartition(".")[0] == stage and world.chance.random() < 0.5:
                    world.transport.queues[queue].clear()
        world.run_healing(LIMIT)
        assert world.answers("one") == DATA.answers
    finally:
        world.close()


def test_what_a_lost_word_left_is_deleted_long_after_the_expiry() -> None:
    """The word that a client is gone has no receipt; a shard that never hears it waits long."""
    world = World(3)
    try:
        world.add_client(DATA.spec("one", shards(1)), DATA.batches)
        world.run()
        path = database_path(world.root, "one", "q3-join", 0)
        world.release("one")
        for _ in range(1000):
            if "q3-join.0" in world.transport.waiting():
                break
            world._work(home_queue(world.clients["one"].spec))
        world.transport.queues["q3-join.0"].clear()
        world.drain()
        assert path.exists()
        world.sleep(world.clients["one"].spec.expires - world.now + EXPIRY_MARGIN - 1)
        world.tick()
        assert path.exists()
        world.sleep(2)
        world.tick()
        assert not path.exists()
    finally:
        world.close()
