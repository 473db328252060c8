"""What a host remembers in the election: timings, roles, contacts, the hand-over, health."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from enum import Enum, auto

from booksan.errors import UsageError
from booksan.membership.messages import (
    Action,
    DatagramKind,
    HostHealthy,
    HostSuspected,
    Message,
    PersistTerm,
    Send,
    StepDown,
    Term,
)

# All timings of the election, in seconds, with their reasons.


@dataclass(frozen=True)
class Timing:
    """Declared once for the whole cluster: hosts with different timings promise nothing."""

    #: The leader's sign of life and health check. Small against `suspicion`, so that only several
    #: misses in a row count; large enough to cost nothing.
    heartbeat: float = 0.5
    #: The longest way of a datagram from one host's decision to the other's socket. The promise of
    #: one leader holds while this holds; generous for one network with busy machines.
    message_bound: float = 0.25
    #: A question without an answer is asked again after this: a lost datagram costs little.
    retry: float = 0.25
    #: How long a host waits for somebody higher to say ALIVE: there and back, and a little.
    answer: float = 0.6
    #: How long a host that heard ALIVE waits for a COORDINATOR: the higher one asks those above
    #: it first (`answer`), then three datagrams pass.
    coordinator: float = 1.5
    #: A leader acts only this long after its last turn of the loop. Long, so that a slow disk or
    #: a busy machine does not end a leadership; it must be over before anybody suspects it.
    lease: float = 2.0
    #: A new leader waits this long for a host that does not agree, though it was heard lately:
    #: the datagram has arrived by then, or the lease of whoever could not read it is over.
    handover: float = 2.4
    #: Silence after which a host is taken for dead. Six heartbeats: a busy host misses one or two.
    suspicion: float = 3.0
    #: Heartbeats without an answer, besides `suspicion`: a leader whose own loop stood still has
    #: asked nobody meanwhile, and must not blame the others.
    misses: int = 4
    #: How often LEAVING is said when nobody asks: a lost one means a host revived in vain.
    farewells: int = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise UsageError(f"election timing: {field.name} must be above 0.")
        bound = self.message_bound
        self._at_least("answer", 2 * bound, "2 x message_bound, there and back")
        self._at_least(
            "coordinator", self.answer + 3 * bound, "answer + 3 x message_bound, or it is too early"
        )
        self._at_least(
            "handover", self.lease + bound, "lease + message_bound, or two leaders could act"
        )
        self._at_least(
            "suspicion",
            self.lease + self.heartbeat + bound,
            "lease + heartbeat + message_bound, or a leader is followed while it acts",
        )
        self._at_least(
            "suspicion", self.misses * self.heartbeat, "misses x heartbeat, or they never count"
        )
        self._at_least("heartbeat", self.retry, "retry: who claims the lead is heard as often")

    def _at_least(self, name: str, bound: float, reason: str) -> None:
        if getattr(self, name) < bound:
            raise UsageError(
                f"election timing: {name} is {getattr(self, name):g} s, but must be at least "
                f"{bound:g} s ({reason})."
            )

    @property
    def conflict(self) -> float:
        """How long two leaders that a broken network made may act on after it is whole again.

        The one with the higher term says so within a heartbeat, but may stand still first; the
        other hears it within the bound, but may stand still as well; both within their leases.
        """
        return self.heartbeat + self.message_bound + 2 * self.lease

    @property
    def settling(self) -> float:
        """How long it takes until all follow the highest live host, once all messages arrive.

        At worst the last sign of a dead leader is just under way; when it is missed the others
        are asked, a claim is refused because of a later term and made again, and somebody who
        agreed to nothing before it died is waited for.
        """
        ask = self.suspicion + self.answer
        refused = 2 * self.message_bound
        return self.message_bound + ask + refused + self.handover + self.message_bound


# What a host is in the election. Plain data.


class Role(Enum):
    #: Follows a leader, or has just begun.
    FOLLOWER = auto()
    #: Has asked those above, and waits for an answer.
    ELECTING = auto()
    #: Somebody above is alive; waits for its COORDINATOR.
    AWAITING = auto()
    #: Waits until nobody else can be acting.
    CLAIMING = auto()
    LEADER = auto()
    #: Is being stopped, and only says so.
    LEFT = auto()


# What is known of the other hosts: when they were heard, and which have left.


class Contacts:
    """When each of the other hosts was last heard, and which have left."""

    def __init__(self, timing: Timing, hosts: Collection[int], now: float) -> None:
        self._timing = timing
        self.heard = dict.fromkeys(hosts, now)
        #: The life in which a host said that it is being stopped, and when it said so last.
        self.left: dict[int, tuple[int, float]] = {}

    def listen_anew(self, now: float) -> None:
        """Whatever was missed until now, silence counts from now on."""
        self.heard = dict.fromkeys(self.heard, now)

    def hear(self, host: int, boot: int, now: float) -> bool:
        """Say whether the host is back after it had left."""
        self.heard[host] = now
        if host in self.left and boot > self.left[host][0]:
            del self.left[host]
            return True
        return False

    def leave(self, host: int, boot: int, now: float) -> None:
        self.left[host] = boot, now

    def left_lately(self, host: int, now: float) -> bool:
        """Whether it has no part in an election.

        Only for a while: it may have started again without a word to this host. A new life is
        silent to nobody before it has listened for the time of a suspicion.
        """
        return host in self.left and now < self.left[host][1] + self._timing.lease

    def absent_from(self, host: int, now: float) -> float:
        """Since when, or from when on, the host cannot be acting.

        Whoever leads or claims the lead is heard at every heartbeat, so one that was silent for
        so long has stood still for longer than its lease, or is dead.
        """
        if self.left_lately(host, now):
            return float("-inf")
        return self.heard[host] + self._timing.suspicion


# The hand-over: who has to agree before a host may lead.


class Claim:
    """One attempt to lead: all others have agreed, are absent, or had the time to stop."""

    def __init__(self, nonce: int) -> None:
        self.nonce = nonce
        self.agreed: set[int] = set()
        self._over: float | None = None

    def announced(self, now: float, timing: Timing) -> None:
        """All have been told by now; only the first time counts."""
        if self._over is None:
            self._over = now + timing.handover

    def clear_from(self, contacts: Contacts, now: float) -> float:
        """From when on nobody else can be acting, as far as is known now."""
        if self._over is None:
            # It is still to be written to disk and told, and a disk can be slow.
            return now
        waiting = (
            contacts.absent_from(host, now) for host in contacts.heard if host not in self.agreed
        )
        return min(max(waiting, default=float("-inf")), self._over)


# Which hosts answer the leader. Time in, decision out.

_NEVER = float("inf")


class Health:
    """The hosts as one leader sees them, in one term."""

    def __init__(
        self, timing: Timing, hosts: Iterable[int], now: float, missed: int | None = None
    ) -> None:
        """`missed`: the leader before, if its silence is why there is a new one."""
        self._timing = timing
        #: Since when the host owes an answer.
        self._since = dict.fromkeys(hosts, now)
        self._misses = dict.fromkeys(self._since, 0)
        if missed is not None:
            # Its heartbeats were missed for long enough: no need to wait as long again.
            self._since[missed] = -_NEVER
            self._misses[missed] = timing.misses
        self._healthy: set[int] = set()
        self.suspected: set[int] = set()

    def asked(self) -> None:
        """A heartbeat went to all."""
        for host in self._misses:
            self._misses[host] += 1

    def answered(self, host: int, now: float) -> list[Action]:
        self._since[host] = now
        self._misses[host] = 0
        self.suspected.discard(host)
        if host in self._healthy:
            return []
        self._healthy.add(host)
        return [HostHealthy(host)]

    def left(self, host: int) -> None:
        """It is being stopped, so it owes nothing."""
        self._since[host] = _NEVER
        self.suspected.discard(host)
        self._healthy.discard(host)

    def returned(self, host: int, now: float) -> None:
        self._since[host] = now
        self._misses[host] = 0

    def overdue(self, now: float) -> list[Action]:
        """Tell of every host that has missed too much, once."""
        timing = self._timing
        found: list[Action] = []
        for host, since in self._since.items():
            late = now >= since + timing.suspicion and self._misses[host] >= timing.misses
            if late and host not in self.suspected:
                self.suspected.add(host)
                self._healthy.discard(host)
                found.append(HostSuspected(host))
        return found

    def next_due(self) -> float:
        """When somebody may be overdue. A host that lacks only misses is seen at a heartbeat."""
        suspicion, enough = self._timing.suspicion, self._timing.misses
        return min(
            (
                since + suspicion
                for host, since in self._since.items()
                if host not in self.suspected and self._misses[host] >= enough
            ),
            default=_NEVER,
        )


# What a host remembers in the election, and what every step of it is made of.


class Member:
    """One host's state, for one life of its process."""

    def __init__(
        self, host: int, hosts: Collection[int], term: Term, nonce: int, timing: Timing, now: float
    ) -> None:
        """`hosts`: all of the cluster. `term`: the last persisted. `nonce`: random, 62 bits."""
        self.host = host
        self.role = Role.FOLLOWER
        self.term = term
        self.leader: int | None = None
        self._timing = timing
        self._others = tuple(sorted(other for other in hosts if other != host))
        self._counter = term.counter
        self._nonce = nonce
        self._contacts = Contacts(timing, self._others, now)
        self._ran = now
        #: When the role has something to do next, and when it asks again.
        self._deadline = now
        self._retry_at = _NEVER
        self._claim = Claim(0)
        self._asked = 0
        self._first_beat = 0
        #: The leader whose silence began the present election.
        self._missed: int | None = None
        self._health = Health(timing, (), now)
        self._farewells = 0

    def acts(self, now: float) -> bool:
        """Whether this host may act as the leader now; to be asked before each act."""
        return self.role is Role.LEADER and now < self.lease_end

    @property
    def lease_end(self) -> float:
        return self._ran + self._timing.lease

    def cannot_persist(self, persisted: Term, now: float, pause: float) -> list[Action]:
        """The disk refused a term: nothing of it was said, and this host waits."""
        self.term = persisted
        return self.begin_anew(now, "the term cannot be written", pause)

    def begin_anew(self, now: float, reason: str, pause: float = 0.0) -> list[Action]:
        """As after a start, and elect after the pause: for a host that lost track."""
        out: list[Action] = []
        self._stop_acting(reason, out)
        if self.role is not Role.LEFT:
            self._enter(Role.FOLLOWER, None, now + pause)
            self._missed = None
            self._contacts.listen_anew(now)
        self._ran = now
        return out

    def _check_lease(self, now: float, out: list[Action]) -> None:
        if now >= self.lease_end:
            stood = now - self._ran
            out += self.begin_anew(now, f"the loop stood still for {stood:.1f} s")

    def _stop_acting(self, reason: str, out: list[Action]) -> None:
        if self.role is Role.LEADER:
            out.append(StepDown(reason))

    def _enter(self, role: Role, leader: int | None, deadline: float = _NEVER) -> None:
        self.role = role
        self.leader = leader
        self._deadline = deadline
        self._retry_at = _NEVER
        self._asked = 0

    def _adopt(self, term: Term, out: list[Action]) -> None:
        if term != self.term:
            self.term = term
            out.append(PersistTerm(term))

    def _next_nonce(self) -> int:
        self._nonce += 1
        return self._nonce

    def _send(
        self, out: list[Action], to: int, kind: DatagramKind, *, nonce: int = 0, echo: int = 0
    ) -> None:
        message = Message(kind, self.host, self.term, nonce or self._next_nonce(), echo)
        out.append(Send(to, message))
