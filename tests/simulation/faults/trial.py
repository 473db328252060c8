"""One plan run to its end: right, failed in order, wrong, or hung."""

import sqlite3
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from booksan.datasets import dataset_named
from booksan.errors import BooksanError
from tests.simulation.faults.plan import LOSSES, Kind, Plan
from tests.simulation.faults.world import FaultyWorld, failing_disk

#: Simulated seconds in which a run must go on after what was lost.
LIMIT = 1800
#: What a join says that has lost what it was to join.
LOST_DISK = "was its disk replaced?"
#: What code that is wrong may raise.
TROUBLE = (ArithmeticError, BooksanError, LookupError, sqlite3.Error, TypeError, ValueError)


class Outcome(StrEnum):
    RIGHT = "right"
    #: With the reason that is promised for it.
    FAILED = "failed in order"
    WRONG = "wrong"
    HUNG = "hung"


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    reason: str
    #: Faults that came true.
    applied: Counter[Kind]
    #: Simulated seconds in which nothing moved.
    stood: float = 0.0

    @property
    def good(self) -> bool:
        return self.outcome in (Outcome.RIGHT, Outcome.FAILED)


class Wrong(Exception):
    """An answer, or what is left, is not what it must be."""


def run_plan(plan: Plan) -> Verdict:
    world = FaultyWorld(plan)
    try:
        with failing_disk(world):
            for name in plan.datasets:
                data = plan.sample(name)
                world.add_client(data.spec(name, plan.shards(name)), data.batches)
            return _run(world)
    finally:
        world.close()


def _run(world: FaultyWorld) -> Verdict:
    try:
        stood = world.run_healing(LIMIT) - world.looked
    except AssertionError as error:
        return Verdict(Outcome.HUNG, str(error), world.applied)
    except TROUBLE as error:
        return Verdict(Outcome.WRONG, f"{type(error).__name__}: {error}", world.applied)
    if stood and not LOSSES & world.applied.keys():
        reason = f"stood still for {stood:.0f} s, though nothing was lost"
        return Verdict(Outcome.HUNG, reason, world.applied, stood)
    try:
        failed = _judge(world)
    except (Wrong, AssertionError) as error:
        return Verdict(Outcome.WRONG, str(error), world.applied, stood)
    return Verdict(Outcome.FAILED if failed else Outcome.RIGHT, failed, world.applied, stood)


def _judge(world: FaultyWorld) -> str:
    """Why runs failed, if that is in order; else all answers are right, and nothing is left."""
    world.calm()
    failed = ""
    for name in world.plan.datasets:
        reason = world.failure(name)
        if reason is None:
            _check_answers(world, name)
        elif LOST_DISK in reason and Kind.FORGET in world.applied:
            failed = reason
        else:
            raise Wrong(f"{name} failed: {reason}")
    for name in world.plan.datasets:
        world.release(name)
    world.drain()
    left = [path for kind in ("clients", "letters") for path in world.root.glob(f"{kind}/*")]
    if left:
        raise Wrong(f"{', '.join(map(str, left))} is left")
    return failed


def _check_answers(world: FaultyWorld, name: str) -> None:
    expected = world.plan.sample(name)
    answers = world.answers(name)
    for query, content in expected.answers.items():
        if answers[query] != content:
            raise Wrong(f"{query} of {name} is wrong")
    for source in dataset_named(name).source:
        if [row for row, _ in world.rejected(name, source)] != expected.rejected[source]:
            raise Wrong(f"the rejected rows of {source} of {name} are wrong")
