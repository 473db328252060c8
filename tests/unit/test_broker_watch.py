"""When a broker is taken for lost."""

import socket
from collections.abc import Iterator

import pytest

from booksan.membership.names import SILENCE, BrokerWatch


@pytest.fixture
def door() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def knock(watch: BrokerWatch, began: float, seconds: float) -> float | None:
    """Every half second; the silence that ended, if one did."""
    found = None
    for tick in range(int(seconds * 2) + 1):
        found = watch.turn(began + tick / 2) or found
    return found


def test_a_broker_that_opens_its_door_is_not_lost(door: socket.socket) -> None:
    watch = BrokerWatch(door.getsockname())
    assert knock(watch, 100.0, 30.0) is None
    assert not watch.lost(130.0)
    watch.rest()


def test_a_broker_that_is_gone_is_lost_after_some_seconds_and_found_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        address = door.getsockname()
        watch = BrokerWatch(address)
        knock(watch, 100.0, 10.0)
    knock(watch, 110.5, SILENCE - 2)
    assert not watch.lost(110.5 + SILENCE - 2)
    knock(watch, 110.5 + SILENCE - 1.5, 3.0)
    assert watch.lost(110.5 + SILENCE + 1.5)
    with socket.create_server(address):
        silence = knock(watch, 120.0, 3.0)
    assert silence is not None
    assert 9.0 <= silence <= 12.0
    assert not watch.lost(123.0)
    watch.rest()


def test_a_name_that_nobody_knows_is_silence_until_it_has_an_address(door: socket.socket) -> None:
    host, port = door.getsockname()
    watch = BrokerWatch(("broker", port))
    knock(watch, 100.0, 10.0)
    assert watch.lost(110.0)
    watch.found_at(host)
    assert knock(watch, 110.5, 3.0) is not None
    assert not watch.lost(113.5)
    watch.rest()


def test_who_leads_anew_begins_with_patience() -> None:
    watch = BrokerWatch(("broker", 5672))
    knock(watch, 100.0, 10.0)
    watch.rest()
    assert watch.due is None
    assert watch.turn(111.0) is None
    assert not watch.lost(111.0)
    watch.rest()
