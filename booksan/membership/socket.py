"""The socket around the machine, and what a host must not forget."""

import json
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from secrets import randbits
from typing import NamedTuple

from booksan.errors import StateError, UsageError
from booksan.membership.machine import Election
from booksan.membership.member import Timing
from booksan.membership.messages import (
    LONGEST,
    NO_TERM,
    Action,
    BecomeLeader,
    Codec,
    Guard,
    HostHealthy,
    HostSuspected,
    Message,
    PersistTerm,
    Send,
    StepDown,
    Term,
)
from booksan_common.files import write_atomically

# What a host must not forget: the latest term that it knew, and the number of its life.

ELECTION_FILE = "election.json"


class Remembered(NamedTuple):
    term: Term
    boot: int


class Memory:
    """The file in the host's data directory. Its caller holds the lock on the directory."""

    def __init__(self, data_dir: Path) -> None:
        """Begin a new life: read what was, and count one up, durably."""
        self._path = data_dir / ELECTION_FILE
        term, boot = read_memory(self._path)
        # By the clock, so that a host whose disk was lost still begins a later life.
        self.boot = max(boot + 1, time.time_ns() // 1_000_000)
        self.term = term
        self.persist(term)

    def persist(self, term: Term) -> None:
        """Durable when it returns; OSError when it could not be."""
        text = json.dumps({"counter": term.counter, "host": term.host, "boot": self.boot})
        write_atomically(self._path, f"{text}\n".encode())
        self.term = term


def read_memory(path: Path) -> Remembered:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        numbers = [found[key] for key in ("counter", "host", "boot")]
    except FileNotFoundError:
        return Remembered(NO_TERM, 0)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise _damaged(path)
    counter, host, boot = numbers
    return Remembered(Term(counter, host), boot)


def _damaged(path: Path) -> StateError:
    return StateError(
        f"{path} is not what the election wrote there. Without it this host could lead twice in "
        "one term: restore it, or delete it while no other host of the cluster runs."
    )


# The socket around the machine, for a single-threaded loop around select.
#
# A loop waits until `fileno()` can be read or `next_due()` has come, calls `turn()`, and does what
# the events in it say:
#
# ready, _, _ = select.select([shell.fileno(), ...], [], [], shell.timeout())
# for event in shell.turn():
# ...
#
# Everything that arrived is handled before the clock may decide anything. Nothing blocks but the
# write of a term, which is rare.

#: A numeric address: names are resolved outside the loop.
Address = tuple[str, int]
#: What the loop around the shell has to do.
Event = BecomeLeader | StepDown | HostSuspected | HostHealthy

#: Datagrams handled in one turn at most: a flood must not keep the loop from its other work.
_BATCH = 1000
#: Seconds until a host whose disk refused a term takes part again.
_DISK_PAUSE = 1.0


def clock() -> float:
    """Seconds that also pass while the machine sleeps, or a lease would outlast it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ElectionShell:
    """One host's part in the election, over UDP."""

    def __init__(
        self,
        host: int,
        bind: Address,
        peers: Mapping[int, Address | None],
        secrets: Sequence[bytes],
        data_dir: Path,
        timing: Timing | None = None,
    ) -> None:
        """`peers`: all other hosts by id; None for one whose address is not known yet, see
        `set_address`. The caller holds the lock on `data_dir`."""
        if not all(0 < one < 2**32 for one in (host, *peers)) or host in peers:
            raise UsageError(f"Host {host}: ids must be different numbers from 1 to 2**32 - 1.")
        self._addresses = {
            one: _numeric(address) for one, address in peers.items() if address is not None
        }
        self._memory = Memory(data_dir)
        self._guard = Guard(self._memory.boot)
        self._codec = Codec(host, secrets)
        self._timing = timing or Timing()
        self.machine = Election(
            host,
            [host, *peers],
            self._memory.term,
            randbits(62),
            self._timing,
            clock(),
        )
        #: Why the last term could not be written; None: it was.
        self.disk_error: str | None = None
        self._socket = _bound(_numeric(bind))

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def set_address(self, host: int, address: Address) -> None:
        """The name of a host was looked up; it may have been restarted elsewhere."""
        self._addresses[host] = _numeric(address)

    def acts(self) -> bool:
        """To be asked before each act of the leader."""
        return self.machine.acts(clock())

    def timeout(self) -> float:
        """Seconds until `turn` has something to do, if nothing arrives before."""
        return max(0.0, self.machine.next_due() - clock())

    def turn(self) -> list[Event]:
        """Handle all that has arrived, then what is due."""
        events: list[Event] = []
        for message in self._receive():
            events += self._perform(self.machine.handle(message, clock()))
        events += self._perform(self.machine.tick(clock()))
        return events

    def leave(self) -> list[Event]:
        """SIGTERM came. Go on with `turn` while the host drains, so that all hear of it."""
        return self._perform(self.machine.leave(clock()))

    def _receive(self) -> Iterable[Message]:
        for _ in range(_BATCH):
            try:
                data = self._socket.recv(LONGEST + 1)
            except BlockingIOError:
                return
            except OSError:
                # What was sent earlier did not arrive (ECONNREFUSED and the like); the next call
                # tells of the next datagram.
                continue
            incoming = self._codec.decode(data)
            if incoming and self._guard.admit(incoming.message.sender, incoming.stamp):
                yield incoming.message._replace(
                    boot=incoming.stamp.boot, proven=self._guard.proven(incoming.stamp)
                )

    def _perform(self, actions: list[Action]) -> list[Event]:
        events: list[Event] = []
        for action in actions:
            if isinstance(action, Send):
                self._send(action.to, action.message)
            elif isinstance(action, PersistTerm):
                refused = self._persist(action)
                if refused is not None:
                    # Nothing of a term that is not on disk may be said or done.
                    return events + refused
            else:
                events.append(action)
        return events

    def _persist(self, action: PersistTerm) -> list[Event] | None:
        try:
            self._memory.persist(action.term)
        except OSError as error:
            self.disk_error = f"the term cannot be written: {error}"
            return self._perform(
                self.machine.cannot_persist(self._memory.term, clock(), _DISK_PAUSE)
            )
        self.disk_error = None
        return None

    def _send(self, to: int, message: Message) -> None:
        # As good as lost while nobody knows where the host is.
        if to not in self._addresses:
            return
        data = self._codec.encode(to, message, self._guard.stamp(to))
        # Full buffers, no route, nobody there: the datagram is lost, as any may be.
        with suppress(OSError):
            self._socket.sendto(data, self._addresses[to])


def _numeric(address: Address) -> Address:
    """Refuse a name: looking it up would block the loop, at every datagram."""
    try:
        ip_address(address[0])
    except ValueError as error:
        raise UsageError(f"The election needs a numeric address, not {address[0]!r}.") from error
    if not 0 < address[1] < 2**16:
        raise UsageError(f"The election needs a port from 1 to 65535, not {address[1]}.")
    return address


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    found = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        found.bind(address)
    except OSError as error:
        found.close()
        raise UsageError(
            f"The election cannot listen on {address[0]} port {address[1]}: {error}. "
            "Free the port, or give the host another address."
        ) from error
    return found
