"""A worker killed at any step of its loop changes no byte of any answer.

Every case is a whole run of a small cluster in which named workers die at named points, in
exact and repeatable places. `-k` with a case's id replays it.
"""

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from booksan.worker.shard import POINTS
from tests.simulation.world import CrashAt, World
from tests.support.data import sample, shards

Record = Callable[[str, object], None]

SEED = 7
#: Pairs of crashes that `make test` tries; `make soak` tries all, in parts that run side by side.
PAIRS = 250
SOAK_PARTS = 16


def run_case(crashes: Sequence[CrashAt], seed: int = SEED) -> World:
    """A run to the answers and on to the deletion, with all that must hold at the end."""
    data = sample(SEED, books=24, reviews=30, batch_bytes=9_000)
    world = World(seed, crashes)
    try:
        world.add_client(data.spec("one", shards(1)), data.batches)
        world.run()
        assert world.failure("one") is None
        assert world.answers("one") == data.answers
        world.release("one")
        world.drain()
        assert list((world.root / "clients").iterdir()) == []
        assert not (world.root / "letters").exists()
    finally:
        world.close()
    return world


@pytest.fixture
def record(record_property: Record) -> Record:
    """What is recorded stands in the summary of the test run."""
    return record_property


@pytest.fixture(scope="module")
def reachable() -> list[CrashAt]:
    """Every point that every worker passes in a quiet run: the first, the second, the last time."""
    hits = run_case(()).hits
    return sorted(
        {
            CrashAt(worker, point, nth)
            for (worker, point), count in hits.items()
            for nth in (1, 2, count)
            if nth <= count
        }
    )


def test_the_quiet_run_passes_every_crash_point(reachable: list[CrashAt]) -> None:
    assert {crash.point for crash in reachable} == set(POINTS)


def test_one_crash_anywhere_changes_nothing(reachable: list[CrashAt], record: Record) -> None:
    deaths = 0
    for crash in reachable:
        world = run_case([crash])
        assert world.deaths == 1, crash
        deaths += world.deaths
    record("single crashes, simulated", f"{len(reachable)} cases, {deaths} deaths")


def try_pairs(pairs: Sequence[tuple[CrashAt, CrashAt]]) -> str:
    """Tries each of them; tells how many."""
    deaths = sum(run_case(pair, seed).deaths for seed, pair in enumerate(pairs))
    return f"{len(pairs)} cases, {deaths} deaths"


def test_two_crashes_anywhere_change_nothing(reachable: list[CrashAt], record: Record) -> None:
    pairs = list(itertools.combinations(reachable, 2))
    chosen = random.Random(SEED).sample(pairs, PAIRS)
    record(f"pairs of crashes, simulated, of {len(pairs)}", try_pairs(chosen))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_every_pair_of_crashes_changes_nothing(
    reachable: list[CrashAt], record: Record, part: int
) -> None:
    pairs = list(itertools.combinations(reachable, 2))[part::SOAK_PARTS]
    record("pairs of crashes, simulated", try_pairs(pairs))


def test_a_crash_at_every_step_of_every_worker_in_one_run_changes_nothing(
    reachable: list[CrashAt], record: Record
) -> None:
    world = run_case(reachable)
    assert world.deaths > len(reachable) / 2
    record("crashes in one simulated run", world.deaths)


def test_the_simulation_notices_a_state_that_commits_without_its_dedup(
    monkeypatch: pytest.MonkeyPatch, reachable: list[CrashAt]
) -> None:
    """A deliberately broken store is caught, so the other tests can fail."""
    from booksan.state.client import ClientStore, Verdict

    monkeypatch.setattr(ClientStore, "judge", lambda self, message: Verdict.NEW)
    crash = next(c for c in reachable if c.worker == "q3-join.0" and c.point == "committed")
    with pytest.raises(AssertionError):
        run_case([crash])
