"""How often a host is revived."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from booksan.host.status import EXIT_AT_WORK
from booksan.membership.reviver import (
    COOLDOWN,
    HEALTHY_SECONDS,
    CommandReviver,
    Patience,
    RevivalMemory,
)

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
    assert gaps[:5] == [0.0, FIRST, 2 * FIRST, LONGEST, LONGEST]
    assert max(gaps) == LONGEST


def test_a_host_that_lived_for_a_while_is_revived_at_once_however_often_it_died_before() -> None:
    patience = Patience()
    now = 100.0
    for _ in range(20):
        assert patience.spend(now)
        patience.back = now + 1.0
        now += 1.0 + HEALTHY_SECONDS
        patience.missed(now)
    assert patience.pauses.coming == FIRST


def test_a_host_that_dies_as_soon_as_it_is_back_has_to_wait() -> None:
    patience = Patience()
    assert patience.spend(100.0)
    patience.back = 101.0
    patience.missed(101.0 + HEALTHY_SECONDS - 1)
    assert not patience.spend(101.0 + HEALTHY_SECONDS - 1)
    assert patience.spend(100.0 + FIRST)
    assert patience.pauses.coming == LONGEST


class Clock:
    """Both clocks of the reviver; the monotonic one begins anew with each machine."""

    def __init__(self) -> None:
        self.now, self.ahead = 50.0, 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + self.ahead


class Leader:
    """One life of a leader that revives beta by a command which does nothing."""

    def __init__(self, root: Path) -> None:
        self._reviver = CommandReviver(
            {"beta": [sys.executable, "-c", ""]},
            {"beta": root / "beta.log"},
            RevivalMemory(root / "revivals.json"),
        )

    def revives(self) -> bool:
        before = set(self._reviver.running)
        self._reviver.revive("beta")
        for pid in self._reviver.running.keys() - before:
            os.waitpid(pid, 0)
        return bool(self._reviver.running)

    def ends(self, code: int) -> None:
        (pid,) = self._reviver.running
        assert self._reviver.reaped(pid, code)

    def returned(self) -> None:
        self._reviver.returned("beta")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr("booksan.membership.reviver.time.monotonic", found.monotonic)
    monkeypatch.setattr("booksan.membership.reviver.time.time", found.time)
    yield found
    monkeypatch.undo()


def test_how_often_a_host_was_revived_outlives_the_leader(tmp_path: Path, clock: Clock) -> None:
    assert Leader(tmp_path).revives()
    gaps = []
    for _ in range(6):
        waited = 0.0
        # Each leader is killed at once, and so is its machine.
        while not Leader(tmp_path).revives():
            waited += 1.0
            clock.now += 1.0
        gaps.append(waited)
        clock.now, clock.ahead = 1.0, clock.ahead + clock.now - 1.0
    assert gaps == [FIRST, 2 * FIRST, *[LONGEST] * 4]


def test_a_clock_that_was_put_back_keeps_nobody_from_being_revived(
    tmp_path: Path, clock: Clock
) -> None:
    assert Leader(tmp_path).revives()
    clock.ahead -= 3600.0
    later = Leader(tmp_path)
    assert not later.revives()
    clock.now += 2 * FIRST
    assert later.revives()


def test_old_revivals_and_files_that_are_damaged_count_for_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "revivals.json"
    long_ago = clock.time() - LONGEST - 1
    path.write_text(json.dumps({"beta": {"due": long_ago, "pause": LONGEST}}))
    assert RevivalMemory(path).read() == {}
    for text in ("{", "[]", '{"beta": 1}'):
        path.write_text(text)
        assert RevivalMemory(path).read() == {}
    assert Leader(tmp_path).revives()


def test_a_host_that_is_healthy_for_a_while_is_forgiven_by_a_leader_that_never_missed_it(
    tmp_path: Path, clock: Clock
) -> None:
    assert Leader(tmp_path).revives()
    later = Leader(tmp_path)
    later.returned()
    clock.now += HEALTHY_SECONDS
    assert later.revives()


def test_a_host_that_is_only_deaf_is_told_of_once_and_asked_again(
    tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    leader = Leader(tmp_path)
    for _ in range(5):
        assert leader.revives()
        leader.ends(EXIT_AT_WORK)
        assert not leader.revives()
        clock.now += FIRST
    said = capfd.readouterr().err
    assert said.count("it is left alone") == 1
    assert said.count("revives beta") == 1
    assert "another secret, another version, or UDP" in said
    leader.returned()
    clock.now += FIRST
    assert leader.revives()
    leader.ends(EXIT_AT_WORK)
    assert "it is left alone" in capfd.readouterr().err
