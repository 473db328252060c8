"""When a dead worker starts again, and when the host gives up."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booksan.host.config import RestartHistory, RestartPolicy

POLICY = RestartPolicy()
QUICK_LIVES = st.floats(0.0, 0.999 * POLICY.healthy_after)


def starts(lives: Iterable[float], *, killed: bool, policy: RestartPolicy = POLICY) -> list[float]:
    """Let a worker live these lives one after the other; return its starts, to the giving up."""
    history = RestartHistory(policy)
    found = [100.0]
    for life in lives:
        due = history.died(found[-1], found[-1] + life, killed=killed)
        if due is None:
            break
        found.append(due)
    return found


@pytest.mark.parametrize("life", [0.0, 1.0, 1000.0])
@pytest.mark.parametrize("killed", [True, False])
def test_the_first_restart_comes_nearly_at_once(life: float, killed: bool) -> None:
    due = RestartHistory(POLICY).died(100.0, 100.0 + life, killed=killed)
    assert due is not None
    assert 0 <= due - (100.0 + life) <= 0.05


def test_starts_that_fail_at_once_are_spaced_ever_wider_up_to_the_bound() -> None:
    spaces = [after - before for before, after in pairwise(starts([0.0] * 12, killed=False))]
    assert spaces == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1, 1, 1, 1, 1, 1])


def test_a_healthy_life_starts_the_delays_anew() -> None:
    history = RestartHistory(POLICY)
    for _ in range(8):
        history.died(100.0, 100.0, killed=True)
    assert history.died(100.0, 100.5, killed=True) == 101.0
    assert history.died(200.0, 205.0, killed=True) == 205.0 + POLICY.first_delay
    assert history.died(300.0, 300.0, killed=True) == 300.0 + POLICY.first_delay


def test_a_worker_killed_every_second_is_back_at_once_for_ever() -> None:
    lives = [1.0] * 5000
    found = starts(lives, killed=True)
    assert len(found) == len(lives) + 1
    assert max(after - before for before, after in pairwise(found)) <= 1.05


@given(st.lists(QUICK_LIVES, min_size=20, max_size=20))
def test_quick_failures_in_a_row_always_reach_the_limit(lives: list[float]) -> None:
    assert len(starts(lives, killed=False)) == 1 + POLICY.max_restarts


@given(st.lists(st.floats(POLICY.healthy_after, 100.0), min_size=50, max_size=50))
def test_failures_after_a_healthy_life_never_reach_the_limit(lives: list[float]) -> None:
    assert len(starts(lives, killed=False)) == 1 + len(lives)


def test_failures_older_than_the_window_do_not_count() -> None:
    policy = RestartPolicy(max_restarts=2, window=10.0)
    history = RestartHistory(policy)
    for now in (100.0, 106.0, 112.0, 118.0, 124.0):
        assert history.died(now, now, killed=False) is not None
    assert history.died(125.0, 125.0, killed=False) is None


def test_kills_do_not_count_towards_the_limit_but_failures_between_them_do() -> None:
    history = RestartHistory(RestartPolicy(max_restarts=2))
    outcomes = [history.died(100.0 + n, 100.0 + n, killed=n % 2 == 0) is not None for n in range(6)]
    assert outcomes == [True, True, True, True, True, False]


def test_a_deadly_message_can_be_set_aside_before_the_host_gives_up() -> None:
    deaths_that_a_worker_needs = 11
    assert deaths_that_a_worker_needs < POLICY.max_restarts
