"""Runs under many faults at once end right, and code that is broken on purpose is found out."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.simulation.faults.mutations import MUTATIONS, broken
from tests.simulation.faults.plan import Fault, Kind, Plan, make_plan
from tests.simulation.faults.search import fewest, search
from tests.simulation.faults.trial import run_plan

Record = Callable[[str, object], None]

TRIALS = 25
#: Seeds of a search for what is broken, and the faults that may be left of a plan that found it.
SEEDS, FEW = 100, 6
#: Where to begin, for what a search from 0 finds late.
BEGIN = {"published before the commit": 163}


def test_runs_under_faults_of_all_kinds_end_right(record_property: Record) -> None:
    found = search(range(1_000, 1_000 + TRIALS))
    assert not found.findings, str(found.findings[0])
    assert set(found.applied) == set(Kind)
    record_property("faults of all kinds, simulated", f"{found.applied.total()} in {TRIALS} runs")


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_broken_is_found_and_shrunk_to_a_few_faults(name: str) -> None:
    with broken(name):
        first = BEGIN.get(name, 0)
        (finding,) = search(range(first, first + SEEDS)).findings
        assert len(finding.plan.faults) <= FEW, str(finding)
        again = run_plan(Plan.from_json(finding.plan.json))
        assert (again.outcome, again.reason) == (finding.verdict.outcome, finding.verdict.reason)
    assert run_plan(finding.plan).good


def test_a_seed_and_a_plan_that_is_written_down_make_the_same_trial() -> None:
    plan = make_plan(17)
    assert make_plan(17) == plan == Plan.from_json(plan.json)
    first, second = run_plan(plan), run_plan(Plan.from_json(plan.json))
    assert first == second
    assert first.applied


@pytest.mark.parametrize("guilty", [(), (3,), (0, 19), (4, 5, 11)])
def test_no_fault_is_left_that_a_failure_does_not_need(guilty: Sequence[int]) -> None:
    faults = [Fault(number, Kind.HANG) for number in range(20)]
    tried: Counter[int] = Counter()

    def fails(some: Sequence[Fault]) -> bool:
        tried[len(some)] += 1
        return {faults[number] for number in guilty} <= set(some)

    assert [one.at for one in fewest(faults, fails)] == list(guilty)
    assert tried.total() < 150
