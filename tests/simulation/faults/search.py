"""Trials of many seeds; a plan that fails is shrunk to the fewest faults that still fail."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.faults.plan import Fault, Kind, Plan, make_plan
from tests.simulation.faults.trial import Outcome, Verdict, run_plan


class Finding(NamedTuple):
    """A plan that ended as none may, with no fault that it could do without."""

    plan: Plan
    verdict: Verdict
    #: Faults of the plan as it was found.
    of: int

    def __str__(self) -> str:
        lines = [
            f"seed {self.plan.seed}: {self.verdict.outcome}: {self.verdict.reason}",
            f"{len(self.plan.faults)} of {self.of} faults are enough:",
            *(f"  {fault}" for fault in self.plan.faults),
            f"python -m tests.simulation.faults --plan '{self.plan.json}'",
        ]
        return "\n".join(lines)


@dataclass
class Tally:
    """What many trials have come to."""

    trials: int = 0
    applied: Counter[Kind] = field(default_factory=Counter)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    #: Simulated seconds in which nothing moved, of each trial in which something was lost.
    stood: list[float] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.trials += 1
        self.applied += verdict.applied
        self.outcomes[verdict.outcome] += 1
        if verdict.stood:
            self.stood.append(verdict.stood)


def search(seeds: Iterable[int], *, findings: int = 1) -> Tally:
    """Until so many plans were found that fail."""
    tally = Tally()
    for seed in seeds:
        plan = make_plan(seed)
        verdict = run_plan(plan)
        tally.add(verdict)
        if not verdict.good:
            tally.findings.append(shrink(plan))
            if len(tally.findings) == findings:
                break
    return tally


def shrink(plan: Plan) -> Finding:
    faults = fewest(plan.faults, lambda some: not run_plan(plan.with_faults(some)).good)
    smaller = plan.with_faults(faults)
    return Finding(smaller, run_plan(smaller), len(plan.faults))


def fewest(faults: Sequence[Fault], fails: Callable[[Sequence[Fault]], bool]) -> Sequence[Fault]:
    """Delta debugging: without any one of what is left it would not fail any more."""
    if fails(()):
        return ()
    parts = 2
    while len(faults) > 1:
        smaller = next((rest for rest in _without(faults, parts) if fails(rest)), None)
        if smaller is not None:
            faults, parts = smaller, max(parts - 1, 2)
        elif parts < len(faults):
            parts = min(2 * parts, len(faults))
        else:
            break
    return faults


def _without(faults: Sequence[Fault], parts: int) -> Iterator[Sequence[Fault]]:
    """All but one of so many parts."""
    size = -(-len(faults) // parts)
    for start in range(0, len(faults), size):
        yield (*faults[:start], *faults[start + size :])
