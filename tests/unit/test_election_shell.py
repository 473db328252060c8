"""The shell over UDP: nothing that the network or the disk does stops it."""

import errno
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from booksan.errors import UsageError
from booksan.membership.messages import BecomeLeader, Term
from booksan.membership.socket import Address, ElectionShell, Event

DEADLINE = 30.0
Maker = Callable[..., ElectionShell]


def free_address() -> Address:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        host, port = found.getsockname()
        return host, port


@pytest.fixture
def addresses() -> dict[int, Address]:
    return {number: free_address() for number in (1, 2)}


@pytest.fixture
def make(tmp_path: Path, addresses: dict[int, Address]) -> Iterator[Maker]:
    shells: list[ElectionShell] = []

    def make(host: int, secret: bytes = b"secret") -> ElectionShell:
        data_dir = tmp_path / str(host)
        data_dir.mkdir(exist_ok=True)
        peers = {number: one for number, one in addresses.items() if number != host}
        shells.append(ElectionShell(host, addresses[host], peers, (secret,), data_dir))
        return shells[-1]

    yield make
    for shell in shells:
        shell.close()


def turn_until(done: Callable[[], bool], *shells: ElectionShell) -> list[Event]:
    events: list[Event] = []
    deadline = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < deadline
        select.select(shells, [], [], min(shell.timeout() for shell in shells))
        for shell in shells:
            events += shell.turn()
    return events


def test_two_hosts_agree_and_the_term_is_on_disk(make: Maker, tmp_path: Path) -> None:
    one, two = make(1), make(2)
    turn_until(lambda: two.acts() and one.machine.leader == 2, one, two)
    assert one.machine.term == two.machine.term
    one.close()
    assert make(1).machine.term == two.machine.term


def test_a_host_whose_peers_are_dead_leads_alone(make: Maker) -> None:
    # Nobody listens there: the kernel answers with errors.
    one = make(1)
    turn_until(one.acts, one)


def test_another_cluster_and_noise_are_not_heard(
    make: Maker, addresses: dict[int, Address]
) -> None:
    one, stranger = make(1), make(2, secret=b"another")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        for length in (0, 1, 100, 130, 1400):
            noise.sendto(b"x" * length, addresses[1])
    turn_until(lambda: one.acts() and stranger.acts(), one, stranger)
    assert one.machine.leader == 1


def test_an_error_of_the_network_is_not_fatal(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def __init__(self, real: socket.socket) -> None:
            self._real = real
            self.errors = iter([errno.ECONNREFUSED, errno.ENETUNREACH] * 50)

        def sendto(self, data: bytes, address: Address) -> int:
            raise OSError(errno.ENOBUFS, "no room")

        def recv(self, size: int) -> bytes:
            for code in self.errors:
                raise OSError(code, "refused")
            return self._real.recv(size)

        def fileno(self) -> int:
            return self._real.fileno()

        def close(self) -> None:
            self._real.close()

    one = make(1)
    monkeypatch.setattr(one, "_socket", Refusing(one._socket))
    turn_until(one.acts, one)


def test_without_a_disk_nobody_leads_and_with_it_again_somebody_does(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = make(2)

    def refuse(term: Term) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(two._memory, "persist", refuse)
        events = turn_until(lambda: two.disk_error is not None, two)
        assert BecomeLeader not in {type(event) for event in events}
        assert "No space left" in str(two.disk_error)
    turn_until(two.acts, two)
    assert two.disk_error is None


def test_an_address_in_use_is_told(make: Maker) -> None:
    make(1)
    with pytest.raises(UsageError, match="cannot listen"):
        make(1)


@pytest.mark.parametrize("address", [("localhost", 5000), ("127.0.0.1", 0), ("127.0.0.1", 70_000)])
def test_names_and_impossible_ports_are_refused(make: Maker, address: Address) -> None:
    with pytest.raises(UsageError, match="The election needs"):
        make(1).set_address(2, address)


def test_a_host_can_move_to_another_address(make: Maker, addresses: dict[int, Address]) -> None:
    one = make(1)
    addresses[2] = free_address()
    two = make(2)
    one.set_address(2, addresses[2])
    turn_until(lambda: two.acts() and one.machine.leader == 2, one, two)
