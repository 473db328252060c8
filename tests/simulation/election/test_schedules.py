"""Never two leaders at once, and agreement in time, whatever the schedule."""

from collections.abc import Callable

import pytest

from booksan.membership.member import Timing
from tests.simulation.election.mutations import MUTATIONS
from tests.simulation.election.promises import PromiseBroken
from tests.simulation.election.world import World, run_seeds

#: Schedules in which every mutation that they can catch is caught at least once.
_MUTATION_SEEDS = range(1000)
Recorder = Callable[[str, object], None]


def run(seeds: range, record_property: Recorder) -> None:
    timing = Timing()
    worst = run_seeds(seeds, timing)
    name = f"election, schedules {seeds.start} to {seeds.stop}"
    record_property(name, f"agreed at worst {worst:.2f} s after the calm")
    assert worst <= timing.settling


@pytest.mark.parametrize("start", [0, 1500])
def test_every_schedule_keeps_the_promises(start: int, record_property: Recorder) -> None:
    run(range(start, start + 1500), record_property)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("start", range(0, 100_000, 25_000))
def test_a_hundred_thousand_schedules_keep_the_promises(
    start: int, record_property: Recorder
) -> None:
    run(range(start, start + 25_000), record_property)


@pytest.mark.parametrize("name", MUTATIONS)
def test_an_election_that_is_broken_on_purpose_is_caught(name: str) -> None:
    options = dict(MUTATIONS[name])
    timing = options.pop("timing", Timing())
    with pytest.raises(PromiseBroken, match=r"Replay it: python -m tests.simulation.election"):
        run_seeds(_MUTATION_SEEDS, timing, **options)


def test_a_seed_gives_the_same_schedule_every_time() -> None:
    def trace(seed: int) -> list[str]:
        lines: list[str] = []
        World(seed, Timing(), trace=lines.append).run()
        return lines

    assert trace(11) == trace(11)
    assert trace(11) != trace(12)
