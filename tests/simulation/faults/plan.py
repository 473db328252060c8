"""The kinds of faults, and plans of them out of a seed: what is to go wrong, and when."""

import functools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from booksan.datasets import dataset_named
from booksan.shards import queue_name
from booksan.stages.operator import Stateful
from tests.simulation.world import World
from tests.support.data import Sample, sample, shards_of
from tests.support.sets import sample_of


class Kind(StrEnum):
    #: A worker is killed at a named step of its loop.
    KILL = "kill"
    #: A worker stands still for a while.
    HANG = "hang"
    #: A message that was confirmed is lost for good.
    LOSE = "lose"
    #: A message of any age comes once more.
    REPEAT = "repeat"
    #: A queue hands out nothing for a while: what comes after it overtakes it.
    DELAY = "delay"
    #: The queues take a part of what is published, and refuse the rest.
    REFUSE = "refuse"
    #: A commit fails, because the disk is full, or cannot write.
    FULL = "full"
    IOERR = "ioerr"
    #: A commit is made, and said to have failed.
    DOUBT = "doubt"
    #: A shard comes back on an empty disk.
    FORGET = "forget"
    #: The clock of a worker's host jumps by days, and back after a while.
    JUMP = "jump"
    #: A client stops for a while.
    PAUSE = "pause"
    #: A client begins again with the source that it was sending.
    RESTART = "restart"
    #: Two gateways take the same batch.
    GATEWAY = "gateway"


#: Those after which something is missing that only time brings back.
LOSSES = frozenset({Kind.LOSE, Kind.FORGET})
#: How often each kind is drawn, beside the others.
WEIGHTS: Mapping[Kind, int] = dict.fromkeys(Kind, 3) | {Kind.KILL: 8, Kind.FORGET: 1}
#: Kills of one worker: ten with the same message in hand would make it a dead letter.
MAX_KILLS = 6
#: Faults of one plan.
LEAST, MOST = 4, 24
#: Steps until a worker is back.
AWAY = (0, 0, 10, 50)
DAY = 24 * 3600


@dataclass(frozen=True, order=True)
class Fault:
    #: Step of the world from which on it is due.
    at: int
    kind: Kind
    #: A worker, or the client.
    whom: str = ""
    #: Of a kill: the step of the worker's loop.
    point: str = ""
    #: Steps that it lasts; passes of the point; publishes refused; days that a clock jumps.
    size: int = 1
    #: Steps until a worker that died, or had trouble with its disk, begins anew.
    away: int = 0


@dataclass(frozen=True)
class Plan:
    seed: int
    #: One client of each of these data sets.
    datasets: tuple[str, ...]
    #: Shards of stages that have keys, and of those that have none.
    keyed: int
    single: int
    faults: tuple[Fault, ...] = ()

    def with_faults(self, faults: Sequence[Fault]) -> "Plan":
        return replace(self, faults=tuple(faults))

    @property
    def json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        found: dict[str, Any] = json.loads(text)
        faults = tuple(Fault(**(one | {"kind": Kind(one["kind"])})) for one in found.pop("faults"))
        return cls(**(found | {"datasets": tuple(found["datasets"])}), faults=faults)

    def sample(self, dataset: str) -> Sample:
        """Out of a few, for each takes its oracle a while."""
        number = self.seed % 3
        if dataset == "books":
            return sample(number, books=12, reviews=14, dirty=number == 1, batch_bytes=4_000)
        return sample_of(dataset, number, rows=12, dirty=number == 1, batch_bytes=2_000)

    def shards(self, dataset: str) -> dict[str, int]:
        return shards_of(dataset, self.keyed, self.single)


def make_plan(seed: int) -> Plan:
    """Everything about a trial follows from this number."""
    chance = random.Random(seed)
    names = ("aoe2", "books", "flights", "steam")
    datasets = tuple(sorted(chance.sample(names, chance.choice((1, 1, 1, 2)))))
    plan = Plan(seed, datasets, chance.choice((1, 1, 2)), chance.choice((1, 1, 2)))
    steps, passed = quiet_run(plan.with_faults(()))
    kinds = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=chance.randint(LEAST, MOST))
    faults = [_fault(chance, plan, kind, steps, passed) for kind in kinds]
    return plan.with_faults(_bounded(sorted(faults)))


@functools.lru_cache(maxsize=256)
def quiet_run(plan: Plan) -> tuple[int, tuple[tuple[str, str], ...]]:
    """How many steps the plan takes without a fault, and which points its workers pass."""
    world = World(plan.seed)
    try:
        for name in plan.datasets:
            data = plan.sample(name)
            world.add_client(data.spec(name, plan.shards(name)), data.batches)
        world.run()
        return world.steps, tuple(sorted(world.hits))
    finally:
        world.close()


def _fault(
    chance: random.Random,
    plan: Plan,
    kind: Kind,
    steps: int,
    passed: Sequence[tuple[str, str]],
) -> Fault:
    at = chance.randrange(1, steps)
    if kind is Kind.KILL:
        # Every point as often, though few workers pass some of them, and seldom.
        point = chance.choice(sorted({point for _, point in passed}))
        worker = chance.choice([worker for worker, one in passed if one == point])
        return Fault(at, kind, worker, point, chance.choice((1, 1, 1, 2, 3)), chance.choice(AWAY))
    if kind in (Kind.PAUSE, Kind.RESTART, Kind.GATEWAY):
        return Fault(at, kind, chance.choice(plan.datasets), size=chance.randint(1, steps // 2))
    if kind in (Kind.LOSE, Kind.REPEAT):
        return Fault(at, kind, size=chance.randrange(1_000))
    worker = chance.choice(_workers(plan, stateful=kind is Kind.FORGET))
    if kind is Kind.JUMP:
        return Fault(at, kind, worker, size=chance.choice((-8, 8)))
    if kind in (Kind.HANG, Kind.DELAY):
        return Fault(at, kind, worker, size=chance.randint(1, steps // 2))
    return Fault(at, kind, worker, size=chance.randint(1, 3), away=chance.choice(AWAY))


def _workers(plan: Plan, *, stateful: bool) -> list[str]:
    return sorted(
        {
            queue_name(stage, shard)
            for name in plan.datasets
            for stage, count in plan.shards(name).items()
            for shard in range(count)
            if not stateful or isinstance(dataset_named(name).stage[stage].operator, Stateful)
        }
    )


def _bounded(faults: Sequence[Fault]) -> list[Fault]:
    """Within what is promised of kills in a row."""
    kept: list[Fault] = []
    for fault in faults:
        same = [one for one in kept if one.kind is Kind.KILL and one.whom == fault.whom]
        if fault.kind is not Kind.KILL or len(same) < MAX_KILLS:
            kept.append(fault)
    return kept
