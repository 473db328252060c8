"""One host of the simulation: what survives a crash, and what does not."""

from booksan.membership.machine import Election
from booksan.membership.messages import NO_TERM, Guard, Message, Stamp, Term


class Host:
    def __init__(self, number: int) -> None:
        self.number = number
        # On disk.
        self.term: Term = NO_TERM
        self.boot = 0
        # In memory.
        self.up = False
        self.left = False
        self.paused = False
        #: Since when the whole machine sleeps, so that what arrives is lost.
        self.asleep: float | None = None
        self.machine: Election | None = None
        self.guard = Guard(0)
        #: What the caller of the machine was told: BecomeLeader, and no StepDown since.
        self.leads = False
        #: What arrived while the loop stood still.
        self.queue: list[tuple[Message, Stamp]] = []
        #: When the next turn is planned; others that are still in the heap are void.
        self.turn_at = float("inf")
        #: How many more actions are done before it crashes.
        self.actions_left: int | None = None
        #: Raised when something in the heap for this host is void.
        self.epoch = 0

    def crash(self) -> None:
        self.up = self.leads = self.paused = self.left = False
        self.machine = self.asleep = None
        self.queue.clear()
        self.turn_at = float("inf")
        self.actions_left = None
        self.epoch += 1
