"""A mean has the same bits whatever the order and the grouping of its values."""

import math
import random
from itertools import pairwise, permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan.messages import to_body, to_frame
from booksan.stages.operators import sums

#: Not so large that the plain sum itself overflows.
numbers = st.floats(-1e300, 1e300, allow_nan=False)
polarities = st.floats(-1, 1)
near_powers = st.builds(math.ldexp, st.floats(-1, 1), st.integers(-1074, 900))


@st.composite
def cancelling(draw: st.DrawFn) -> list[float]:
    """Values of which most cancel, so that only a tiny rest remains."""
    values = draw(st.lists(numbers | near_powers, max_size=12))
    rest = draw(st.lists(near_powers, max_size=4))
    return draw(st.permutations([*values, *(-value for value in values), *rest]))


series = st.lists(numbers, max_size=30) | st.lists(polarities, max_size=60) | cancelling()


def through_disk(groups: list[list[float]]) -> list[float]:
    """Added group by group, written and read after each, as a worker does."""
    before = pl.DataFrame(schema={"key": pl.String, **sums.SUMMED})
    for group in groups:
        frame = pl.DataFrame([("k", len(group), group)], before.schema, orient="row")
        before = to_frame(to_body(sums.added(pl.concat([before, sums.exact(frame)]))))
    partials: list[float] = before["partials"][0].to_list()
    return partials


def same(left: float, right: float) -> bool:
    return left.hex() == right.hex()


@settings(deadline=None, max_examples=300)
@given(values=series.filter(bool), data=st.data())
def test_any_order_and_grouping_gives_the_bits_of_fsum(
    values: list[float], data: st.DataObject
) -> None:
    expected = math.fsum(values) / len(values)
    shuffled = data.draw(st.permutations(values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    borders = [0, *cuts, len(values)]
    groups = [shuffled[a:b] for a, b in pairwise(borders)]
    assert same(sums.exact_mean(through_disk(groups), len(values)), expected)


def test_all_orders_of_a_nasty_sum_agree() -> None:
    values = [1e16, 1.0, -1e16, 1e-30, 2.0**-1074]
    expected = math.fsum(values) / 5
    for order in permutations(values):
        assert same(sums.exact_mean(through_disk([[value] for value in order]), 5), expected)


def test_adding_leaves_the_old_sum_as_it_was() -> None:
    old = sums.add_exactly([], [0.1, 0.2])
    copy = list(old)
    sums.add_exactly(old, [0.3])
    assert old == copy


def test_a_sum_stays_small_however_much_is_added() -> None:
    chance = random.Random(1)
    partials: list[float] = []
    for _ in range(20):
        partials = sums.add_exactly(partials, [chance.uniform(-1, 1) for _ in range(500)])
        assert len(partials) < 8


@pytest.mark.parametrize("values", [[0.0], [-0.0], [0.5, -0.5], [0.0] * 7, [1e300, -1e300]])
def test_pitfall_a_mean_of_exactly_zero_is_a_mean(values: list[float]) -> None:
    partials = through_disk([values])
    assert partials == []
    assert same(sums.exact_mean(partials, len(values)), 0.0)


def test_pitfall_sums_do_not_drift_as_32_bit_floats_do() -> None:
    values = [0.1] * 20_000
    narrow = np.float32(0)
    for value in values:
        narrow += np.float32(value)
    assert abs(float(narrow) / 20_000 - 0.1) > 1e-6
    assert same(sums.exact_mean(sums.add_exactly([], values), 20_000), math.fsum(values) / 20_000)
