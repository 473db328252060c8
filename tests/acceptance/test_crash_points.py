"""Real processes killed with SIGKILL at every step of their loop: no byte changes.

In each run every worker dies once at the same point; the supervisor restarts it, and the command
ends by itself with the oracle's answers. The simulation tries the points one by one and in pairs.
"""

from collections.abc import Callable

import pytest

from booksan.generate.books import generate_books
from booksan.worker.shard import POINTS
from tests.acceptance.crashes import orders_for, run_with_crashes
from tests.support.command import Place
from tests.support.inputs import Inputs

PARAMS = {"q2.decades": 3, "q3.min_reviews": 5, "q5.percentile": 60}
BATCH_BYTES = 100_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    made = generate_books(tmp_path_factory.mktemp("data"), books=300, reviews=1_200, seed=11)
    return Inputs("books", made.paths, PARAMS)


@pytest.mark.parametrize("point", POINTS)
def test_every_worker_killed_at_this_point_changes_nothing(
    data: Inputs, place: Place, point: str, record_property: Callable[[str, object], None]
) -> None:
    crashed = run_with_crashes(data, place, orders_for("books", [point]), BATCH_BYTES)
    # The filter sends one message for each that it gets, so it may never have two to be caught
    # between.
    assert set(crashed.left) <= {"q1-filter.0@partly-published@1"}
    record_property(f"real workers killed at {point}", crashed.kills)


@pytest.mark.parametrize("nth", [2, 3])
def test_every_worker_killed_again_at_later_messages_changes_nothing(
    data: Inputs, place: Place, nth: int
) -> None:
    points = ("received", "committed", "published", "acknowledged")
    crashed = run_with_crashes(data, place, orders_for("books", points, nth), BATCH_BYTES)
    assert crashed.restarts >= len(crashed.orders) / 4
    assert crashed.kills
