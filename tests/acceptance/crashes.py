"""`booksan run` whose real workers are killed with SIGKILL at steps of their loop."""

import subprocess
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from booksan.datasets import dataset_named
from booksan.shards import queue_name
from booksan.stages.operator import Stateful
from tests.support.command import Ended, Place
from tests.support.inputs import Inputs

FINAL = {"final-in-transaction", "final-committed", "final-published"}
WITH_OUTBOX = {"outbox-cleared", "in-transaction", "committed", *FINAL}
#: Seconds for a run in which every worker dies several times.
CRASH_PATIENCE = 240.0


@dataclass(frozen=True)
class Crashed:
    """A run that came to its end nevertheless."""

    orders: Collection[str]
    #: Orders that no worker came to obey: a crash removes its own.
    left: Collection[str]
    restarts: int

    @property
    def kills(self) -> int:
        return len(self.orders) - len(self.left)


def passes(dataset: str, stage: str, point: str) -> bool:
    """Does a worker of this stage ever come to this point?"""
    declared = dataset_named(dataset).stage[stage]
    if point.startswith("permit-"):
        return bool(declared.joins)
    return isinstance(declared.operator, Stateful) or point not in WITH_OUTBOX


def workers(dataset: str) -> list[tuple[str, int]]:
    """Stages and shards of a run with two workers for what is heavy."""
    return [
        (stage.name, shard)
        for stage in dataset_named(dataset).stages
        for shard in range(2 if stage.heavy else 1)
    ]


def orders_for(dataset: str, points: Iterable[str], nth: int = 1) -> list[str]:
    """Every worker dies at each of these points that it passes.

    Each life counts anew. So one that is to die at several points dies at the first of them, and
    at the others in its next lives.
    """
    return [
        f"{queue_name(stage, shard)}@{point}@{nth}"
        for point in points
        for stage, shard in workers(dataset)
        if passes(dataset, stage, point)
    ]


def run_with_crashes(
    inputs: Inputs, place: Place, orders: Collection[str], batch_bytes: int
) -> Crashed:
    """The command ends by itself with the oracle's answers, whatever is ordered."""
    crashes = place.root / "crashes"
    crashes.mkdir()
    for order in orders:
        (crashes / order).touch()
    env = {"BOOKSAN_CRASH_DIR": str(crashes), "BOOKSAN_PUBLISH_CHUNK": "1"}
    more = ("--workers", "2", "--batch-bytes", str(batch_bytes), "--json")
    ended = _run(place, inputs.words("run", place.out, *more), env)
    assert ended.code == 0, ended.err
    inputs.check(place.out)
    left = sorted(path.name for path in crashes.iterdir())
    return Crashed(orders, left, ended.document["restarts"])


def _run(place: Place, words: Iterable[str | Path], env: dict[str, str]) -> Ended:
    command = [sys.executable, "-m", "booksan", *map(str, words)]
    done = subprocess.run(
        command,
        env=place.environment(env),
        capture_output=True,
        text=True,
        timeout=CRASH_PATIENCE,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
