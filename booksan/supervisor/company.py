"""The other hosts, as the supervisor's loop sees them: who leads, who is silent, who is revived."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from booksan.supervisor.broker_watch import BrokerWatch
from booksan.supervisor.config import ElectionConfig
from booksan.supervisor.election.actions import (
    BecomeLeader,
    HostHealthy,
    HostSuspected,
    StepDown,
)
from booksan.supervisor.election.shell import ElectionShell, Event
from booksan.supervisor.logs import log
from booksan.supervisor.names import Names, is_numeric, listening
from booksan.supervisor.reviver import Reviver, make_reviver

#: Its place among the names that are looked up; hosts have numbers from 1 on.
_BROKER = 0


class Leading(NamedTuple):
    """Who leads, as far as this host knows."""

    leader: str | None
    #: `counter.id`, the term that it leads in.
    term: str | None


class Company:
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
            log("host", f"{name} is back after {silence:.1f} s")

    def _tell(self, event: Event) -> None:
        if isinstance(event, BecomeLeader):
            log("host", f"leads, term {event.term.counter}.{event.term.host}")
        elif isinstance(event, StepDown):
            self._missed.clear()
            log("host", f"leads no more: {event.reason}")
        elif isinstance(event, HostSuspected):
            self._missed[event.host] = time.monotonic()
            log("host", f"misses {self._names[event.host]}, which does not answer")
        elif isinstance(event, HostHealthy):
            self._reviver.returned(self._names[event.host])
            if event.host not in self._missed:
                return
            seconds = time.monotonic() - self._missed.pop(event.host)
            log("host", f"{self._names[event.host]} is back after {seconds:.1f} s")
