"""Hosts, a virtual clock, and the promises, which are checked at every event."""

import heapq
import random
from collections.abc import Callable, Iterable
from typing import Any

from booksan.supervisor.election.actions import (
    Action,
    BecomeLeader,
    PersistTerm,
    Send,
    StepDown,
)
from booksan.supervisor.election.guard import Guard, Stamp
from booksan.supervisor.election.machine import Election
from booksan.supervisor.election.messages import Kind, Message, Term
from booksan.supervisor.election.timing import Timing
from tests.simulation.election.host import Host
from tests.simulation.election.network import Network
from tests.simulation.election.schedule import Fault, draw

#: Seconds that a turn of the loop may come after it is due.
_LATENESS = 0.02
_NEVER = float("inf")
Link = tuple[int, int]


class PromiseBroken(AssertionError):
    """A promise of the election does not hold in this schedule."""


class World:
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
        #: Since when all agree, in the calm.
        self._agreed: float | None = None

    # The clock.

    def _at(self, time: float, call: Callable[..., None], *args: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, call, args))

    def run(self) -> float:
        """Run to the end, and return the seconds from the calm until all agreed."""
        schedule = self.schedule
        for number, start in zip(schedule.hosts, schedule.starts, strict=True):
            self._at(start, self._start, self._hosts[number])
        for fault in schedule.faults:
            self._at(fault.at, self._strike, fault)
        self._at(schedule.calm, self._calm_down)
        latest = schedule.calm + self.timing.settling
        while self._agreed is None or self.now < self._agreed + schedule.hold:
            self.now, _, call, args = heapq.heappop(self._events)
            call(*args)
            self._check_leaders()
            if self._network.calm:
                self._check_agreement(latest)
        self._check_suspicions()
        return self._agreed - schedule.calm

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

    # Datagrams.

    def _send(self, host: Host, to: int, message: Message) -> None:
        if message.kind is Kind.AGREED and message.term.host != host.number:
            self._require(not host.leads, f"host {host.number} agrees and still leads")
        self._require(message.term <= host.term, f"host {host.number} tells a term not on disk")
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
        if message.kind is Kind.AGREED:
            self._recorded.setdefault((host.number, receiver.number), []).append((message, stamp))
        elif message.kind is Kind.COORDINATOR:
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

    # Faults.

    def _strike(self, fault: Fault) -> None:
        host = self._target(fault)
        back = self.now + fault.lasts
        if fault.kind in ("split", "one-way"):
            self._cut_links(self._links(fault), back)
        elif not host.up or host.left:
            return
        elif fault.kind in ("pause", "sleep"):
            self._pause(host, back, asleep=fault.kind == "sleep")
        elif fault.kind == "leave":
            self._leave(host, back)
        else:
            if fault.kind == "cut":
                host.actions_left = self._rng.randint(1, 4)
            else:
                self._crash(host)
            if back < self.schedule.calm:
                self._at(back, self._restart, host)

    def _target(self, fault: Fault) -> Host:
        if fault.host < 0:
            for host in self._hosts.values():
                if host.leads:
                    return host
        return self._hosts[self.schedule.hosts[fault.host]]

    def _restart(self, host: Host) -> None:
        if host.up:
            self._crash(host)
        self._start(host)

    def _links(self, fault: Fault) -> list[Link]:
        hosts = self.schedule.hosts
        side = {hosts[position] for position in fault.side}
        there = [(a, b) for a in hosts for b in hosts if a in side and b not in side]
        return there if fault.kind == "one-way" else there + [(b, a) for a, b in there]

    def _cut_links(self, links: list[Link], until: float) -> None:
        self._note(None, f"cut: {links}")
        self._network.cut(links)
        if until < self.schedule.calm:
            self._at(until, self._mend, links)

    def _mend(self, links: list[Link]) -> None:
        self._note(None, f"mended: {links}")
        self._network.mend(links)

    def _pause(self, host: Host, until: float, *, asleep: bool) -> None:
        if host.paused:
            return
        self._note(host, "sleeps" if asleep else "stands still")
        host.paused = True
        host.asleep = self.now if asleep else None
        host.turn_at = _NEVER
        self._at(min(until, self.schedule.calm), self._resume, host, host.epoch)

    def _resume(self, host: Host, epoch: int) -> None:
        if host.epoch != epoch or not host.paused:
            return
        self._note(host, "goes on")
        host.paused = False
        if host.asleep is not None and self.now < host.asleep + self.timing.lease:
            # It may go on as before, but what came meanwhile is lost. After a longer sleep it
            # begins anew, and needs no excuse.
            for other in self.schedule.hosts:
                self._network.break_promise((other, host.number), self.now)
        host.asleep = None
        self._catch_up(host)

    def _catch_up(self, host: Host) -> None:
        """All that arrived, then a turn."""
        queue, host.queue = host.queue, []
        for message, stamp in queue:
            self._hear(host, message, stamp)
        if host.machine is not None and not host.paused:
            self._perform(host, host.machine.tick(self.now))
        self._plan(host)

    def _leave(self, host: Host, back: float) -> None:
        if host.machine is None or host.paused:
            return
        self._note(host, "leaves")
        host.left = True
        epoch = host.epoch
        self._perform(host, host.machine.leave(self.now))
        self._require(not host.leads, f"host {host.number} leaves and still leads")
        self._plan(host)
        self._at(self.now + 0.8, self._end, host, epoch)
        if back < self.schedule.calm:
            self._at(max(back, self.now + 0.9), self._start, host)

    def _end(self, host: Host, epoch: int) -> None:
        if host.epoch == epoch:
            self._crash(host)

    def _calm_down(self) -> None:
        self._note(None, "the network is whole, no loop stands still")
        # What is late at this moment counts as lost.
        self._network.calm_down()
        for host in self._hosts.values():
            host.actions_left = None
        if not any(host.up and not host.left for host in self._hosts.values()):
            self._restart(self._hosts[self.schedule.hosts[0]])

    # Promises.

    def _check_leaders(self) -> None:
        acting = [host for host in self._hosts.values() if host.leads]
        if len(acting) < 2:
            return
        acting = [host for host in acting if host.machine and host.machine.acts(self.now)]
        for one in acting:
            for other in acting:
                if one.number < other.number:
                    self._require(
                        not self._reachable(one, other),
                        f"hosts {one.number} and {other.number} act at the same time",
                    )

    def _reachable(self, one: Host, other: Host) -> bool:
        """Whether all datagrams between the two arrived in time, for long enough."""
        broken = self._network.broken
        there = broken.get((one.number, other.number), -_NEVER)
        back = broken.get((other.number, one.number), -_NEVER)
        return self.now > max(there, back) + self.timing.conflict

    def _check_agreement(self, latest: float) -> None:
        if not self._agree():
            self._agreed = None
            self._require(self.now <= latest, "the hosts do not agree in time")
        elif self._agreed is None:
            self._agreed = self.now

    def _agree(self) -> bool:
        live = [host for host in self._hosts.values() if host.up and not host.left]
        highest = max(host.number for host in live)
        for host in live:
            if host.machine is None or host.machine.leader != highest:
                return False
        machine = self._hosts[highest].machine
        return machine is not None and machine.acts(self.now)

    def _check_suspicions(self) -> None:
        """After a long calm exactly the dead are suspected, but for those that had left."""
        if self.schedule.hold < self.timing.suspicion + 2 * self.timing.heartbeat:
            return
        up = {host.number for host in self._hosts.values() if host.up and not host.left}
        machine = self._hosts[max(up)].machine
        assert machine is not None
        wrong = machine.suspected & up
        self._require(not wrong, f"live hosts are suspected: {sorted(wrong)}")
        missed = set(self.schedule.hosts) - up - machine.suspected - machine.left
        self._require(not missed, f"dead hosts are not suspected: {sorted(missed)}")

    def _require(self, holds: bool, promise: str) -> None:
        if not holds:
            raise PromiseBroken(f"{promise}, at {self.now:.3f} s")

    def _note(self, host: Host | None, text: str) -> None:
        if self._trace:
            who = "network" if host is None else f"host {host.number}"
            self._trace(f"{self.now:8.3f}  {who:8}  {text}")


def run_seeds(seeds: Iterable[int], timing: Timing, **options: Any) -> float:
    """Run the schedules, and return the worst time until all agreed. PromiseBroken names a seed."""
    worst = 0.0
    for seed in seeds:
        try:
            worst = max(worst, World(seed, timing, **options).run())
        except PromiseBroken as broken:
            raise PromiseBroken(
                f"seed {seed}: {broken}. "
                f"Replay it: python -m tests.simulation.election --seeds {seed} --trace"
            ) from broken
    return worst
