"""Real processes killed with SIGKILL at every step of their loop: no byte changes.

In each run every worker dies once at the same point; the supervisor restarts it, and the command
ends by itself with the oracle's answers. The simulation tries the points one by one and in pairs.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from booksan.generate.books import generate_books
from booksan.stages.books import DATASET as BOOKS
from booksan.stages.graph import queue_name
from booksan.stages.operator import Stateful
from booksan.worker.crash import POINTS
from tests.oracle import books as oracle

PARAMS = {"q2.decades": 3, "q3.min_reviews": 5, "q5.percentile": 60}
SHARDS = {stage.name: 2 if stage.heavy else 1 for stage in BOOKS.stages}
FINAL = {"final-in-transaction", "final-committed", "final-published"}
WITH_OUTBOX = {"outbox-cleared", "in-transaction", "committed", *FINAL}


def passes(stage: str, point: str) -> bool:
    """Does a worker of this stage ever come to this point?"""
    declared = BOOKS.stage[stage]
    if point.startswith("permit-"):
        return bool(declared.joins)
    return isinstance(declared.operator, Stateful) or point not in WITH_OUTBOX


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, bytes]]:
    directory = tmp_path_factory.mktemp("data")
    made = generate_books(directory, books=300, reviews=1_200, seed=11)
    return (*made.paths, oracle.answers(*made.paths, PARAMS))


def run_with_crashes(
    data: tuple[Path, Path, dict[str, bytes]], tmp_path: Path, orders: list[str]
) -> tuple[list[str], int]:
    """Runs the command with these crashes ordered; those left over, and the restarts it tells."""
    books, reviews, expected = data
    crashes = tmp_path / "crashes"
    crashes.mkdir()
    for order in orders:
        (crashes / order).touch()
    env = os.environ | {
        "BOOKSAN_CRASH_DIR": str(crashes),
        "BOOKSAN_PUBLISH_CHUNK": "1",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    command = [sys.executable, "-m", "booksan", "run", "books", str(books), str(reviews)]
    command += ["--out", str(tmp_path / "out"), "--workers", "2", "--batch-bytes", "100000"]
    command += ["--json", *(f"--set={name}={value}" for name, value in PARAMS.items())]
    done = subprocess.run(command, env=env, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = {name: (tmp_path / "out" / f"{name}.csv").read_bytes() for name in expected}
    assert found == expected
    return sorted(path.name for path in crashes.iterdir()), json.loads(done.stdout)["restarts"]


@pytest.mark.parametrize("point", POINTS)
def test_every_worker_killed_at_this_point_changes_nothing(
    data: tuple[Path, Path, dict[str, bytes]],
    tmp_path: Path,
    point: str,
    record_property: Callable[[str, object], None],
) -> None:
    orders = [
        f"{queue_name(stage, shard)}@{point}@1"
        for stage, count in SHARDS.items()
        for shard in range(count)
        if passes(stage, point)
    ]
    left, _ = run_with_crashes(data, tmp_path, orders)
    # A crash removes its order. The filter sends one message for each that it gets, so it may
    # never have two to be caught between.
    assert set(left) <= {"q1-filter.0@partly-published@1"}
    record_property(f"real workers killed at {point}", len(orders) - len(left))


@pytest.mark.parametrize("nth", [2, 3])
def test_every_worker_killed_again_at_later_messages_changes_nothing(
    data: tuple[Path, Path, dict[str, bytes]], tmp_path: Path, nth: int
) -> None:
    orders = [
        f"{queue_name(stage, shard)}@{point}@{nth}"
        for stage, count in SHARDS.items()
        for shard in range(count)
        for point in ("received", "committed", "published", "acknowledged")
    ]
    left, restarts = run_with_crashes(data, tmp_path, orders)
    assert restarts >= len(orders) / 4
    assert len(left) < len(orders)
