"""A clock that jumps deletes nothing and hangs nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from booksan.clock import Clock
from booksan.state.shard import EXPIRY_MARGIN
from tests.simulation.world import World
from tests.support.data import sample, shards

MakeWorld = Callable[..., World]

DATA = sample(5)
DAY = 24 * 3600
WEEK = 7 * DAY


class Hosts:
    """A clock for each worker, as if each were on a host of its own."""

    def __init__(self, world: World) -> None:
        self.ahead: dict[str, float] = {}
        self._world = world
        self._clocks: dict[str, Clock] = {}
        world.clock_of = self.clock

    def clock(self, name: str) -> Clock:
        """One for all lives of a worker: what is believed is kept on disk."""
        if name not in self._clocks:
            self._clocks[name] = Clock(
                wall=lambda: self._world.now + self.ahead.get(name, 0.0),
                steady=lambda: self._world.steady,
                boot="simulated",
            )
        return self._clocks[name]


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    world = make_world(5)
    Hosts(world)
    return world


def add(world: World) -> None:
    spec = replace(DATA.spec("one", shards(1)), expires=int(world.now) + WEEK, idle=DAY)
    world.add_client(spec, DATA.batches)


@pytest.mark.parametrize("jump", [8 * DAY, -8 * DAY])
@pytest.mark.parametrize("host", sorted(f"{stage}.0" for stage in shards(1)))
def test_a_jump_on_one_host_changes_nothing(make_world: MakeWorld, host: str, jump: float) -> None:
    world = make_world(5)
    hosts = Hosts(world)
    hosts.clock(host)
    add(world)
    for turn in range(6):
        for _ in range(40):
            world._step()
        hosts.ahead[host] = 0.0 if turn % 2 else jump
        world.sleep(30)
        world.tick()
    world.run()
    hosts.ahead[host] = jump
    world.sleep(30)
    world.tick()
    assert world.answers("one") == DATA.answers
    hosts.ahead[host] = 0.0
    world.sleep(30)
    world.tick()
    assert world.answers("one") == DATA.answers


def test_the_home_expires_a_run_and_the_others_hear_of_it(world: World) -> None:
    add(world)
    world.run()
    world.sleep(WEEK - 10)
    world.tick()
    assert world.answers("one") == DATA.answers
    world.views["one"].close()
    world.sleep(20)
    world.tick()
    assert list((world.root / "clients").iterdir()) == []
    assert world.views["one"].how_gone() == "expired"


def test_a_shard_waits_long_for_the_word_of_the_home(world: World) -> None:
    """Its home may be away; then it goes by its own clock in the end."""
    add(world)
    world.run()
    world.views["one"].close()
    del world.workers["results.0"]
    world.sleep(WEEK + EXPIRY_MARGIN - 10)
    world.tick()
    assert (world.root / "clients" / "one" / "q3-join-0.db").exists()
    world.sleep(20)
    world.tick()
    assert not (world.root / "clients" / "one" / "q3-join-0.db").exists()


def test_a_host_whose_clock_was_wrong_from_the_start_says_so(make_world: MakeWorld) -> None:
    """It has no way to know, but the run does not wait for it in vain."""
    world = make_world(5)
    hosts = Hosts(world)
    hosts.ahead["q4-top.0"] = 30 * DAY
    add(world)
    world.run()
    assert "q4-top.0: by its clock the run has expired" in str(world.failure("one"))
