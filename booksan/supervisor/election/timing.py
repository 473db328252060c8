"""All timings of the election, in seconds, with their reasons."""

from dataclasses import dataclass, fields

from booksan.errors import UsageError


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
