"""Fixtures of the simulation."""

from collections.abc import Callable, Collection, Iterator

import pytest

from tests.simulation.world import CrashAt, World


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(seed: int, crashes: Collection[CrashAt] = (), *, repeats: float = 0.0) -> World:
        worlds.append(World(seed, crashes, repeats=repeats))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()
