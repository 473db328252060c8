"""Pauses grow up to the longest, and begin anew."""

from booksan_common.backoff import Backoff


def test_pauses_grow_by_their_factor_up_to_the_longest() -> None:
    pauses = Backoff(1.0, 5.0)
    assert [next(pauses) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    pauses = Backoff(4.0, 8.0, 1.5)
    assert [next(pauses) for _ in range(3)] == [4.0, 6.0, 8.0]


def test_chance_takes_up_to_half_of_a_pause_and_nothing_of_those_to_come() -> None:
    pauses = Backoff(1.0, 5.0, chance=lambda: 0.0)
    assert [next(pauses) for _ in range(4)] == [0.5, 1.0, 2.0, 2.5]


def test_after_a_reset_they_begin_anew_and_one_that_was_kept_goes_on_where_it_was() -> None:
    pauses = Backoff(1.0, 5.0, coming=4.0)
    assert [next(pauses), pauses.coming] == [4.0, 5.0]
    pauses.reset()
    assert next(pauses) == 1.0
