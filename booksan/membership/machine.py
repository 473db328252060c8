"""The bully algorithm as a pure state machine: messages and time in, actions out.

    FOLLOWER --silence--> ELECTING --nobody above answers--> CLAIMING --all agree--> LEADER
        ^                     |                                  |                      |
        |                     '-----ALIVE----> AWAITING <--ALIVE-'                      |
        '------------------ COORDINATOR or HEARTBEAT of a higher host ------------------'

Three rules keep two leaders from acting at once; docs/election.md argues why they suffice.

1. Before a host leads, every other host has agreed to its term, or is absent (silent for longer
   than a lease lasts), or has had a message's time and a lease to stop.
2. Whoever leads or claims the lead stops when it sees a later term, whoever says it.
3. Whose loop stood still for a lease begins anew, before it looks at anything else.

A message never makes a host ask, claim or lead: only a turn of its loop does, after all that had
arrived was read. So a loop that stood still hears first what it missed.
"""

from collections.abc import Callable, Collection

from booksan.membership.member import Claim, Health, Member, Role, Timing
from booksan.membership.messages import Action, BecomeLeader, DatagramKind, Message, Term

_NEVER = float("inf")


class Election(Member):
    """One host's part, for one life of its process."""

    def __init__(
        self, host: int, hosts: Collection[int], term: Term, nonce: int, timing: Timing, now: float
    ) -> None:
        super().__init__(host, hosts, term, nonce, timing, now)
        self._handlers: dict[DatagramKind, Callable[[Message, float, list[Action]], None]] = {
            DatagramKind.ELECTION: self._on_election,
            DatagramKind.ALIVE: self._on_alive,
            DatagramKind.COORDINATOR: self._on_coordinator,
            DatagramKind.AGREED: self._on_agreed,
            DatagramKind.HEARTBEAT: self._on_heartbeat,
            DatagramKind.PONG: self._on_pong,
            DatagramKind.LEAVING: self._on_leaving,
        }
        self._turns: dict[Role, Callable[[float, list[Action]], None]] = {
            Role.FOLLOWER: self._elect_when_due,
            Role.ELECTING: self._turn_electing,
            Role.AWAITING: self._elect_when_due,
            Role.CLAIMING: self._turn_claiming,
            Role.LEADER: self._turn_leading,
            Role.LEFT: self._turn_left,
        }

    # What the caller asks.

    @property
    def suspected(self) -> frozenset[int]:
        """The hosts that do not answer this leader."""
        leads = self.role is Role.LEADER
        return frozenset(self._health.suspected) if leads else frozenset()

    @property
    def left(self) -> frozenset[int]:
        """The hosts that said that they are being stopped, and were not heard in a new life."""
        return frozenset(self._contacts.left)

    def next_due(self) -> float:
        """When `tick` has something to do, if no message comes before."""
        # A loop that sleeps for longer could not tell its own sleep from standing still.
        due = min(self._deadline, self._retry_at, self._ran + self._timing.heartbeat)
        if self.role is Role.LEADER:
            return min(due, self._health.next_due())
        if self.role is Role.CLAIMING:
            return min(due, self._claim.clear_from(self._contacts, self._ran))
        return due

    # What the caller tells.

    def tick(self, now: float) -> list[Action]:
        """One turn of the loop, after all messages that had arrived were handled."""
        out: list[Action] = []
        self._check_lease(now, out)
        self._ran = now
        self._turns[self.role](now, out)
        return out

    def handle(self, message: Message, now: float) -> list[Action]:
        out: list[Action] = []
        sender = message.sender
        if sender not in self._contacts.heard:
            return out
        self._check_lease(now, out)
        if self.role is Role.LEFT:
            if message.kind is not DatagramKind.LEAVING:
                self._send(out, sender, DatagramKind.LEAVING, echo=message.nonce)
            return out
        if self._contacts.hear(sender, message.boot, now):
            self._health.returned(sender, now)
        if sender in self._contacts.left and message.kind is not DatagramKind.LEAVING:
            return out
        self._see_term(message, now, out)
        self._handlers[message.kind](message, now, out)
        return out

    def leave(self, now: float) -> list[Action]:
        """This host is being stopped: it leads no more, and nobody shall wait for it."""
        out: list[Action] = []
        self._stop_acting("this host is being stopped", out)
        self._enter(Role.LEFT, None, now)
        self._farewells = 0
        self._turn_left(now, out)
        return out

    # Rule 2. Rule 3 is in `member`.

    def _see_term(self, message: Message, now: float, out: list[Action]) -> None:
        if message.term <= self.term:
            return
        self._counter = max(self._counter, message.term.counter)
        if self.role not in (Role.LEADER, Role.CLAIMING):
            return
        self._stop_acting(f"host {message.sender} knows a later term", out)
        if message.sender > self.host:
            self._enter(Role.AWAITING, None, now + self._timing.coordinator)
        else:
            # Those above have heard of this host all the time: no need to ask them again.
            self._enter(Role.ELECTING, None, now)

    # Elections.

    def _elect_when_due(self, now: float, out: list[Action]) -> None:
        if now >= self._deadline:
            self._note_leader()
            self._elect(now, out)

    def _elect_next(self, now: float) -> None:
        """At the next turn: what has arrived and is not read yet may know of another leader."""
        self._note_leader()
        self._enter(Role.FOLLOWER, None, now)

    def _note_leader(self) -> None:
        if self.leader is not None:
            self._missed = self.leader

    def _elect(self, now: float, out: list[Action]) -> None:
        if not self._above(now):
            self._claim_lead(now, out)
            return
        self._enter(Role.ELECTING, None, now + self._timing.answer)
        self._asked = self._next_nonce()
        self._ask_above(now, out)

    def _above(self, now: float) -> list[int]:
        left = self._contacts.left_lately
        return [other for other in self._others if other > self.host and not left(other, now)]

    def _ask_above(self, now: float, out: list[Action]) -> None:
        self._retry_at = now + self._timing.retry
        for other in self._above(now):
            self._send(out, other, DatagramKind.ELECTION, nonce=self._asked)

    def _turn_electing(self, now: float, out: list[Action]) -> None:
        if now >= self._deadline:
            self._claim_lead(now, out)
        elif now >= self._retry_at:
            self._ask_above(now, out)

    def _on_election(self, message: Message, now: float, out: list[Action]) -> None:
        if message.sender > self.host:
            return
        self._send(out, message.sender, DatagramKind.ALIVE, echo=message.nonce)
        if self.role is Role.LEADER:
            self._send(out, message.sender, DatagramKind.HEARTBEAT)
        self._doubt_leader(now)

    def _on_alive(self, message: Message, now: float, out: list[Action]) -> None:
        asked = self.role in (Role.ELECTING, Role.CLAIMING) and message.echo == self._asked
        if asked and message.sender > self.host:
            self._enter(Role.AWAITING, None, now + self._timing.coordinator)

    def _doubt_leader(self, now: float) -> None:
        """Somebody misses the leader: look for oneself, unless it was heard just now."""
        heard = self._deadline - self._timing.suspicion
        if self.role is Role.FOLLOWER and now >= heard + 2 * self._timing.heartbeat:
            self._elect_next(now)

    # Rule 1.

    def _claim_lead(self, now: float, out: list[Action]) -> None:
        self._enter(Role.CLAIMING, None)
        self._counter += 1
        self._adopt(Term(self._counter, self.host), out)
        self._asked = self._next_nonce()
        self._claim = Claim(self._asked)
        self._announce(now, out)

    def _announce(self, now: float, out: list[Action]) -> None:
        self._retry_at = now + self._timing.retry
        for other in self._others:
            self._send(out, other, DatagramKind.COORDINATOR, nonce=self._asked)

    def _turn_claiming(self, now: float, out: list[Action]) -> None:
        self._claim.announced(now, self._timing)
        if not self._lead_when_clear(now, out) and now >= self._retry_at:
            self._announce(now, out)

    def _lead_when_clear(self, now: float, out: list[Action]) -> bool:
        if now < self._claim.clear_from(self._contacts, now):
            return False
        self._enter(Role.LEADER, self.host)
        self._ran = now
        self._first_beat = self._nonce + 1
        self._health = Health(self._timing, self._others, now, self._missed_leader(now))
        for host in self._contacts.left:
            self._health.left(host)
        out.append(BecomeLeader(self.term))
        self._beat(now, out)
        return True

    def _missed_leader(self, now: float) -> int | None:
        missed = self._missed
        if missed is None or now < self._contacts.absent_from(missed, now):
            return None
        return None if missed in self._contacts.left else missed

    def _on_coordinator(self, message: Message, now: float, out: list[Action]) -> None:
        sender = message.sender
        if sender < self.host:
            self._send(out, sender, DatagramKind.ALIVE, echo=message.nonce)
            self._doubt_leader(now)
            return
        if message.term >= self.term:
            self._follow(message, now, out)
        self._send(out, sender, DatagramKind.AGREED, echo=message.nonce)

    def _follow(self, message: Message, now: float, out: list[Action]) -> None:
        self._enter(Role.FOLLOWER, message.sender, now + self._timing.suspicion)
        self._missed = None
        self._adopt(message.term, out)

    def _on_agreed(self, message: Message, now: float, out: list[Action]) -> None:
        if self.role is not Role.CLAIMING or message.echo != self._claim.nonce:
            return
        if message.term == self.term:
            self._claim.agreed.add(message.sender)

    # Leading and following.

    def _turn_leading(self, now: float, out: list[Action]) -> None:
        if now >= self._deadline:
            self._beat(now, out)
        out += self._health.overdue(now)

    def _beat(self, now: float, out: list[Action]) -> None:
        self._deadline = now + self._timing.heartbeat
        nonce = self._next_nonce()
        for other in self._others:
            self._send(out, other, DatagramKind.HEARTBEAT, nonce=nonce)
        self._health.asked()

    def _on_heartbeat(self, message: Message, now: float, out: list[Action]) -> None:
        sender = message.sender
        if message.term >= self.term:
            if sender < self.host:
                self._overrule(now)
            elif message.proven:
                self._follow(message, now, out)
        self._send(out, sender, DatagramKind.PONG, echo=message.nonce)

    def _overrule(self, now: float) -> None:
        """A lower host leads: take the lead back."""
        if self.role is Role.FOLLOWER:
            self._elect_next(now)

    def _on_pong(self, message: Message, now: float, out: list[Action]) -> None:
        asked = self._first_beat <= message.echo <= self._nonce
        if self.role is Role.LEADER and asked:
            out += self._health.answered(message.sender, now)

    # Leaving.

    def _turn_left(self, now: float, out: list[Action]) -> None:
        if now < self._deadline:
            return
        self._farewells += 1
        for other in self._others:
            self._send(out, other, DatagramKind.LEAVING)
        done = self._farewells >= self._timing.farewells
        self._deadline = _NEVER if done else now + self._timing.retry

    def _on_leaving(self, message: Message, now: float, out: list[Action]) -> None:
        sender = message.sender
        if not message.proven:
            # The answer tells the sender of this life; then it can say it again.
            self._send(out, sender, DatagramKind.PONG, echo=message.nonce)
            return
        self._contacts.leave(sender, message.boot, now)
        self._health.left(sender)
        if self.role is Role.AWAITING or (self.role is Role.FOLLOWER and self.leader == sender):
            self._elect_next(now)
