"""Hosts, datagrams between them, and a virtual clock."""

import heapq
import random
from collections.abc import Callable
from typing import Any

from booksan.membership.machine import Election
from booksan.membership.member import Timing
from booksan.membership.messages import (
    Action,
    BecomeLeader,
    DatagramKind,
    Guard,
    Message,
    PersistTerm,
    Send,
    Stamp,
    StepDown,
    Term,
)
from tests.simulation.election.host import Host
from tests.simulation.election.network import Network
from tests.simulation.election.promises import Promises, require
from tests.simulation.election.schedule import draw

#: Seconds that a turn of the loop may come after it is due.
_LATENESS = 0.02
_NEVER = float("inf")
Link = tuple[int, int]


class Cluster:
    def __init__(
        self,
        seed: int,
        timing: Timing,
        *,
        machine: type[Election] = Election,
        guard: type[Guard] = Guard,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.timing = timing
        self.schedule = draw(seed, timing.message_bound)
        self.now = 0.0
        self._machine, self._guard, self._trace = machine, guard, trace
        self._rng = random.Random(f"world {seed}")
        self._random = self._rng.random
        self._network = Network(self.schedule, timing.message_bound, self._rng)
        self._hosts = {number: Host(number) for number in self.schedule.hosts}
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._terms: set[Term] = set()
        self._recorded: dict[Link, list[tuple[Message, Stamp]]] = {}
        self._promises = Promises(self._hosts.values(), self._network, timing)

    # The clock.

    def _at(self, time: float, call: Callable[..., None], *args: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, call, args))

    # Hosts.

    def _start(self, host: Host) -> None:
        if host.up:
            return
        host.boot += 1
        host.up = True
        host.guard = self._guard(host.boot)
        nonce = self._rng.getrandbits(62)
        host.machine = self._machine(
            host.number, self.schedule.hosts, host.term, nonce, self.timing, self.now
        )
        self._note(host, "starts")
        self._plan(host)

    def _crash(self, host: Host) -> None:
        self._note(host, "crashes")
        host.crash()

    def _plan(self, host: Host) -> None:
        """See to it that the host's loop turns when it is due."""
        if host.machine is None or host.paused:
            return
        due = host.machine.next_due()
        if due < host.turn_at:
            at = max(due, self.now) + self._random() * _LATENESS
            host.turn_at = at
            self._at(at, self._turn, host, at)

    def _turn(self, host: Host, at: float) -> None:
        if at != host.turn_at or host.machine is None or host.paused:
            return
        host.turn_at = _NEVER
        self._perform(host, host.machine.tick(self.now))
        self._plan(host)

    def _perform(self, host: Host, actions: list[Action]) -> None:
        for position, action in enumerate(actions):
            if host.actions_left is not None and self._runs_out(host):
                return
            if type(action) is Send:
                self._send(host, action.to, action.message)
            else:
                if self._trace:
                    self._note(host, str(action))
                self._do(host, action)
                if (
                    isinstance(action, PersistTerm)
                    and self.schedule.disk
                    and not self._network.calm
                ):
                    self._wait_for_disk(host, actions[position + 1 :])
                    return

    @property
    def _disk_is_slow(self) -> bool:
        return self.schedule.disk > 0 and not self._network.calm

    def _wait_for_disk(self, host: Host, rest: list[Action]) -> None:
        """The loop stands still until the term is written; only then comes what follows."""
        host.paused = True
        host.turn_at = _NEVER
        written = min(self.now + self._random() * self.schedule.disk, self.schedule.calm)
        self._at(written, self._go_on, host, host.epoch, rest)

    def _go_on(self, host: Host, epoch: int, rest: list[Action]) -> None:
        if host.epoch == epoch:
            host.paused = False
            self._perform(host, rest)
            self._catch_up(host)

    def _runs_out(self, host: Host) -> bool:
        assert host.actions_left is not None
        host.actions_left -= 1
        if host.actions_left < 0:
            self._crash(host)
        return not host.up

    def _do(self, host: Host, action: Action) -> None:
        if isinstance(action, PersistTerm):
            self._require(action.term > host.term, f"host {host.number}: a term went backwards")
            host.term = action.term
        elif isinstance(action, StepDown):
            host.leads = False
        elif isinstance(action, BecomeLeader):
            self._require(
                host.term == action.term, f"host {host.number} leads in a term not on disk"
            )
            self._require(action.term not in self._terms, f"{action.term} was led in twice")
            self._terms.add(action.term)
            host.leads = True

    def _catch_up(self, host: Host) -> None:
        """All that arrived, then a turn."""
        queue, host.queue = host.queue, []
        for message, stamp in queue:
            self._hear(host, message, stamp)
        if host.machine is not None and not host.paused:
            self._perform(host, host.machine.tick(self.now))
        self._plan(host)

    # Datagrams.

    def _send(self, host: Host, to: int, message: Message) -> None:
        if message.kind is DatagramKind.AGREED and message.term.host != host.number:
            self._require(not host.leads, f"host {host.number} agrees and still leads")
        if message.term > host.term:
            self._require(False, f"host {host.number} tells a term not on disk")
        stamp = host.guard.stamp(to)
        link = (host.number, to)
        receiver = self._hosts[to]
        if self._trace:
            self._note(host, f"-> {to} {message.kind.name} {tuple(message.term)}")
        for arrival in self._network.arrivals(link, self.now, receiver.up):
            self._at(arrival, self._deliver, receiver, message, stamp, self.now)
        if self.schedule.replay:
            self._record(host, receiver, message, stamp)

    def _record(self, host: Host, receiver: Host, message: Message, stamp: Stamp) -> None:
        """Somebody listens: a claim is answered by the agreements of earlier ones."""
        if message.kind is DatagramKind.AGREED:
            self._recorded.setdefault((host.number, receiver.number), []).append((message, stamp))
        elif message.kind is DatagramKind.COORDINATOR:
            for recorded in self._recorded.get((receiver.number, host.number), [])[-3:]:
                self._at(self.now + 0.001, self._deliver, host, *recorded, self.now)

    def _deliver(self, host: Host, message: Message, stamp: Stamp, sent: float) -> None:
        if host.machine is None:
            return
        if self._network.calm and sent < self.now - self.timing.message_bound:
            # A recording, or one that is late: in the calm there is neither.
            return
        if host.asleep is None:
            self._hear(host, message, stamp)
            self._plan(host)

    def _hear(self, host: Host, message: Message, stamp: Stamp) -> None:
        if host.paused:
            host.queue.append((message, stamp))
            return
        guard = host.guard
        if host.machine is None or not guard.admit(message.sender, stamp):
            return
        kind, sender, term, nonce, echo, _, _ = message
        heard = Message(kind, sender, term, nonce, echo, stamp.boot, guard.proven(stamp))
        if self._trace:
            self._note(host, f"<- {sender} {kind.name} {tuple(term)}")
        self._perform(host, host.machine.handle(heard, self.now))

    def _note(self, host: Host | None, text: str) -> None:
        if self._trace:
            who = "network" if host is None else f"host {host.number}"
            self._trace(f"{self.now:8.3f}  {who:8}  {text}")

    def _require(self, holds: bool, promise: str) -> None:
        require(holds, promise, self.now)
