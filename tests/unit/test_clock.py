"""A wall clock that jumps is not believed until it has gone on for long."""

import json
from pathlib import Path

import pytest

from booksan.clock import CONFIRMED_AFTER, FILE, JUMP, Clock

WEEK = 7 * 24 * 3600.0
START = 1_700_000_000.0


class Machine:
    """A machine with a clock that somebody sets, and what it keeps between processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.set_by = 0.0
        self.passed = 100.0
        self.boot = "first"

    def start_process(self) -> Clock:
        return Clock(
            self.directory,
            wall=lambda: START + self.passed + self.set_by,
            steady=lambda: self.passed,
            boot=self.boot,
        )

    @property
    def right(self) -> float:
        return START + self.passed


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("jump", [WEEK, -WEEK, JUMP + 1, -JUMP - 1])
def test_a_jump_is_not_believed_and_nothing_ends_by_it(machine: Machine, jump: float) -> None:
    clock = machine.start_process()
    assert clock.settled
    machine.set_by = jump
    machine.passed += 10
    assert clock.now() == pytest.approx(machine.right)
    assert not clock.settled


def test_a_jump_and_back_leaves_no_trace(machine: Machine) -> None:
    clock = machine.start_process()
    machine.set_by = WEEK
    clock.now()
    machine.passed += CONFIRMED_AFTER - 1
    clock.now()
    machine.set_by = 0.0
    machine.passed += 10
    assert clock.now() == pytest.approx(machine.right)
    assert clock.settled


def test_a_jump_that_lasts_is_believed(machine: Machine) -> None:
    clock = machine.start_process()
    machine.set_by = -WEEK
    clock.now()
    machine.passed += CONFIRMED_AFTER - 1
    assert clock.now() == pytest.approx(machine.right)
    machine.passed += 1
    assert clock.now() == pytest.approx(machine.right - WEEK)
    assert clock.settled


def test_a_second_jump_begins_the_wait_anew(machine: Machine) -> None:
    clock = machine.start_process()
    for jump in (WEEK, 2 * WEEK, 3 * WEEK):
        machine.set_by = jump
        machine.passed += CONFIRMED_AFTER - 1
        assert clock.now() == pytest.approx(machine.right)


def test_small_corrections_are_followed_at_once(machine: Machine) -> None:
    clock = machine.start_process()
    for step in range(1, 20):
        machine.set_by = step * (JUMP - 1)
        assert clock.now() == pytest.approx(machine.right + machine.set_by)
        assert clock.settled


def test_a_process_that_starts_after_the_jump_believes_what_the_others_do(
    machine: Machine,
) -> None:
    machine.start_process()
    machine.set_by = WEEK
    later = machine.start_process()
    assert later.now() == pytest.approx(machine.right)
    assert not later.settled
    machine.passed += CONFIRMED_AFTER
    assert later.now() == pytest.approx(machine.right + WEEK)
    # What is believed now is what the next process believes.
    assert machine.start_process().settled


def test_after_a_restart_of_the_machine_nothing_ends_for_a_while(machine: Machine) -> None:
    machine.start_process()
    machine.boot, machine.set_by = "second", WEEK
    clock = machine.start_process()
    assert clock.now() == pytest.approx(machine.right + WEEK)
    assert not clock.settled
    machine.passed += CONFIRMED_AFTER
    assert clock.settled
    assert machine.start_process().settled


@pytest.mark.parametrize("content", ["", "no json", "[]", '{"boot": "first"}'])
def test_a_damaged_note_makes_doubtful_and_breaks_nothing(machine: Machine, content: str) -> None:
    (machine.directory / FILE).write_text(content)
    clock = machine.start_process()
    assert clock.now() == pytest.approx(machine.right)
    assert not clock.settled


def test_the_note_tells_what_is_believed(machine: Machine) -> None:
    machine.start_process()
    found = json.loads((machine.directory / FILE).read_text())
    assert found == {"boot": "first", "difference": pytest.approx(START)}
