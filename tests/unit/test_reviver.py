"""How often a host is revived."""

from booksan.supervisor.reviver import COOLDOWN, HEALTHY_SECONDS, Patience

FIRST, LONGEST = COOLDOWN


def test_a_host_that_does_not_come_back_is_revived_ever_more_rarely() -> None:
    patience = Patience()
    now, gaps = 100.0, []
    last = now
    for _ in range(3000):
        patience.missed(now)
        if patience.spend(now):
            gaps.append(now - last)
            last = now
        now += 0.5
    assert gaps[:5] == [0.0, FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]
    assert max(gaps) == LONGEST


def test_a_host_that_lived_for_a_while_is_revived_at_once_however_often_it_died_before() -> None:
    patience = Patience()
    now = 100.0
    for _ in range(20):
        assert patience.spend(now)
        patience.back = now + 1.0
        now += 1.0 + HEALTHY_SECONDS
        patience.missed(now)
    assert patience.pause == FIRST


def test_a_host_that_dies_as_soon_as_it_is_back_has_to_wait() -> None:
    patience = Patience()
    assert patience.spend(100.0)
    patience.back = 101.0
    patience.missed(101.0 + HEALTHY_SECONDS - 1)
    assert not patience.spend(101.0 + HEALTHY_SECONDS - 1)
    assert patience.spend(100.0 + FIRST)
    assert patience.pause == 4 * FIRST
