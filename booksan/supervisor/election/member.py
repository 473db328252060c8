"""What a host remembers in the election, and what every step of it is made of."""

from collections.abc import Collection

from booksan.supervisor.election.actions import Action, PersistTerm, Send, StepDown
from booksan.supervisor.election.claim import Claim
from booksan.supervisor.election.contacts import Contacts
from booksan.supervisor.election.health import Health
from booksan.supervisor.election.messages import Kind, Message, Term
from booksan.supervisor.election.roles import Role
from booksan.supervisor.election.timing import Timing

_NEVER = float("inf")


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
        self, out: list[Action], to: int, kind: Kind, *, nonce: int = 0, echo: int = 0
    ) -> None:
        message = Message(kind, self.host, self.term, nonce or self._next_nonce(), echo)
        out.append(Send(to, message))
