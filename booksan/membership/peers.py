"""The other hosts, as the supervisor's loop sees them; and changes of whom it knows."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from booksan.errors import UsageError
from booksan.host.config import HOST_FILE, ElectionConfig, HostConfig, read_config
from booksan.host.logs import log, tell
from booksan.membership.messages import BecomeLeader, HostHealthy, HostSuspected, StepDown
from booksan.membership.names import BrokerWatch, Names, is_numeric, listening
from booksan.membership.reviver import Reviver, make_reviver
from booksan.membership.socket import ElectionShell, Event

# Changes of host.json under a running supervisor: other hosts have come, or are elsewhere now.
#
# Only whom the host knows may change: its peers, and what its gateway reads. Its workers may not.

#: Seconds between two looks: somebody who has just come is not heard for that long.
LOOK = 1.0
#: Seconds until what could not be done, such as listening on a port that is taken, is tried again.
RETRY = 5.0
#: What the gateway reads; whoever changes it writes host.json after it.
_GATEWAY_FILE = "gateway.json"

_Stamp = tuple[int, int] | None


class Changes:
    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._seen = self._stamp(HOST_FILE)
        self._gateway = self._stamp(_GATEWAY_FILE)
        self.due = 0.0

    def look(self, now: float) -> HostConfig | None:
        """The configuration, if it was written anew."""
        if now < self.due:
            return None
        self.due = now + LOOK
        stamp = self._stamp(HOST_FILE)
        if stamp is None or stamp == self._seen:
            return None
        self._seen = stamp
        try:
            return read_config(self._data_dir)
        except UsageError as error:
            log("host", f"stays as it is: {error}")
            return None

    def again(self, now: float) -> None:
        """What was read could not be done: read it once more, later."""
        self._seen, self.due = None, now + RETRY

    def gateway_changed(self) -> bool:
        """Since the last time that this was asked."""
        before, self._gateway = self._gateway, self._stamp(_GATEWAY_FILE)
        return before != self._gateway

    def _stamp(self, name: str) -> _Stamp:
        try:
            found = (self._data_dir / name).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns


# The other hosts, as the supervisor's loop sees them: who leads, who is silent, who is revived.

#: Its place among the names that are looked up; hosts have numbers from 1 on.
_BROKER = 0


class Leading(NamedTuple):
    """Who leads, as far as this host knows."""

    leader: str | None
    #: `counter.id`, the term that it leads in.
    term: str | None


class Membership:
    """This host's part among the hosts: the election, and as a leader the revival."""

    def __init__(self, config: ElectionConfig, secrets: Sequence[bytes], data_dir: Path) -> None:
        self._config = config
        self._names = {peer.id: name for name, peer in config.peers.items()}
        self._names[config.id] = config.name
        addresses = {peer.id: peer.address for peer in config.peers.values()}
        known = {id: one if is_numeric(one[0]) else None for id, one in addresses.items()}
        bind = listening(config.listen)
        self._shell = ElectionShell(config.id, bind, known, secrets, data_dir)
        if config.broker is not None:
            addresses[_BROKER] = config.broker
        self._lookups = Names(addresses, socket.AF_INET6 if ":" in bind[0] else socket.AF_INET)
        self._broker = BrokerWatch(config.broker) if config.broker else None
        self._reviver: Reviver = make_reviver(config, data_dir)
        #: Monotonic time at which each host was first missed.
        self._missed: dict[int, float] = {}

    @property
    def fds(self) -> list[int]:
        return [self._shell.fileno(), *self._lookups.fds]

    @property
    def due(self) -> float:
        """Monotonic time at which there is something to do."""
        due = min(time.monotonic() + self._shell.timeout(), self._lookups.due)
        knock = self._broker.due if self._broker else None
        return due if knock is None else min(due, knock)

    def turn(self) -> None:
        """Hear the others, and do what is due; never blocks."""
        missing = bool(self._missed) or self._shell.machine.leader is None
        for host, address in self._lookups.turn(missing=missing).items():
            if host == _BROKER and self._broker is not None:
                self._broker.found_at(address[0])
            else:
                self._shell.set_address(host, address)
        for event in self._shell.turn():
            self._tell(event)
        self._revive()
        if self._broker is not None and self._config.broker is not None:
            self._watch_broker(self._broker, self._config.broker[0])

    def reaped(self, pid: int, code: int) -> bool:
        """A child of the supervisor has ended; True if it was one of ours."""
        return self._lookups.reaped(pid) or self._reviver.reaped(pid, code)

    def leave(self) -> None:
        """SIGTERM ends leadership and revival at once; the others are told."""
        self._reviver.stop()
        if self._broker is not None:
            self._broker.rest()
        for event in self._shell.leave():
            self._tell(event)

    def close(self) -> None:
        self._lookups.close()
        self._shell.close()

    def leading(self) -> Leading:
        machine = self._shell.machine
        if machine.leader is None:
            return Leading(None, None)
        term = machine.term
        return Leading(self._names.get(machine.leader), f"{term.counter}.{term.host}")

    def _revive(self) -> None:
        machine = self._shell.machine
        for host in machine.suspected - machine.left:
            # Asked before each act: the lease may have run out since the turn began.
            if self._shell.acts():
                self._reviver.revive(self._names[host])

    def _watch_broker(self, broker: BrokerWatch, name: str) -> None:
        if not self._shell.acts():
            broker.rest()
            return
        now = time.monotonic()
        silence = broker.turn(now)
        if broker.lost(now):
            self._reviver.revive(name)
        elif silence is not None:
            self._reviver.returned(name)
            tell("host", f"{name} is back after {silence:.1f} s")

    def _tell(self, event: Event) -> None:
        if isinstance(event, BecomeLeader):
            log("host", f"leads, term {event.term.counter}.{event.term.host}")
        elif isinstance(event, StepDown):
            self._missed.clear()
            log("host", f"leads no more: {event.reason}")
        elif isinstance(event, HostSuspected):
            self._missed[event.host] = time.monotonic()
            tell("host", f"misses {self._names[event.host]}, which does not answer")
        elif isinstance(event, HostHealthy):
            self._reviver.returned(self._names[event.host])
            if event.host not in self._missed:
                return
            seconds = time.monotonic() - self._missed.pop(event.host)
            tell("host", f"{self._names[event.host]} is back after {seconds:.1f} s")
