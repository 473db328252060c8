"""Names of hosts: looked up by a child, again and again, without keeping the loop."""

import os
import select
import socket
import time

import pytest

from booksan.host.config import Address
from booksan.membership import names
from booksan.membership.names import Names, listening

PATIENCE = 30.0


def lookup(found: Names) -> dict[int, Address]:
    """One look-up from its start to its answer."""
    deadline = time.monotonic() + PATIENCE
    while not found.fds:
        assert time.monotonic() < deadline
        assert found.turn(missing=True) == {}
        time.sleep(max(0.0, found.due - time.monotonic()) if not found.fds else 0)
    ready, _, _ = select.select(found.fds, [], [], PATIENCE)
    assert ready
    answer = found.turn(missing=True)
    while found.fds:
        assert time.monotonic() < deadline
        answer = found.turn(missing=True)
    pid, _ = os.waitpid(-1, 0)
    assert found.reaped(pid)
    assert not found.reaped(pid)
    return answer


def test_addresses_with_numbers_are_not_looked_up() -> None:
    found = Names({2: ("127.0.0.1", 7400), 3: ("::1", 7400)}, socket.AF_INET)
    assert found.turn(missing=True) == {}
    assert found.fds == []


def test_a_name_becomes_an_address() -> None:
    found = Names({2: ("localhost", 7400), 3: ("127.0.0.1", 1)}, socket.AF_INET)
    assert lookup(found) == {2: ("127.0.0.1", 7400)}


def test_a_name_that_is_unknown_is_tried_again_and_a_new_address_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names, "_SOON", 0.01)
    found = Names({2: ("beta", 7400), 3: ("gamma", 7401)}, socket.AF_INET)
    for known, told in (
        ({}, {}),
        ({"beta": "10.0.0.2"}, {2: ("10.0.0.2", 7400)}),
        ({"beta": "10.0.0.2"}, {}),
        ({"beta": "10.0.0.9", "gamma": "10.0.0.3"}, {2: ("10.0.0.9", 7400), 3: ("10.0.0.3", 7401)}),
    ):
        monkeypatch.setattr(names, "_resolved", lambda name, _family, known=known: known.get(name))
        assert lookup(found) == told


def slow_for_beta(name: str, _family: socket.AddressFamily) -> str | None:
    if name == "beta":
        time.sleep(PATIENCE)
    return "10.0.0.3"


def test_a_name_that_takes_long_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_ENOUGH", 1.0)
    monkeypatch.setattr(names, "_resolved", slow_for_beta)
    found = Names({2: ("beta", 7400), 3: ("gamma", 7400)}, socket.AF_INET)
    began = time.monotonic()
    assert found.turn(missing=True) == {}
    assert found.turn(missing=True) == {}
    assert time.monotonic() - began < 1
    assert lookup(found) == {3: ("10.0.0.3", 7400)}


def test_a_lookup_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_LONGEST", 1)
    monkeypatch.setattr(names, "_look_up_all", lambda *_: time.sleep(PATIENCE))
    assert lookup(Names({2: ("beta", 7400)}, socket.AF_INET)) == {}


def test_a_host_that_is_known_by_a_name_listens_everywhere() -> None:
    assert listening(("alpha", 7400)) == ("0.0.0.0", 7400)
    assert listening(("localhost", 7400)) == ("127.0.0.1", 7400)
    assert listening(("10.1.2.3", 7400)) == ("10.1.2.3", 7400)
