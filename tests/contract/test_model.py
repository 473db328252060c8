"""Any sequence of calls does what a list in memory would do."""

from collections import Counter
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from booksan.transport import Consumer, Delivery, Depth, Outgoing
from tests.support.places import SOON, Place, SpoolPlace, check_depth, drain

BODIES = st.lists(st.binary(max_size=40), max_size=20)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.transport = place.open()
        self.consumer: Consumer | None = None
        self.waiting: Counter[bytes] = Counter()
        self.held: list[Delivery] = []

    @rule(bodies=BODIES)
    def publish(self, bodies: list[bytes]) -> None:
        self.transport.publish([Outgoing("work", body) for body in bodies])
        self.waiting.update(bodies)

    @precondition(lambda self: self.consumer is None)
    @rule()
    def consume(self) -> None:
        self.consumer = self.transport.consume("work")

    @precondition(lambda self: self.consumer is not None)
    @rule(max_messages=st.integers(1, 12), max_bytes=st.integers(0, 200))
    def receive(self, max_messages: int, max_bytes: int) -> None:
        assert self.consumer is not None
        timeout = SOON if self.waiting.total() else 0
        deliveries = self.consumer.receive(max_messages, max_bytes, timeout)
        bodies = Counter(delivery.body for delivery in deliveries)
        assert bodies <= self.waiting
        assert bool(bodies) == bool(self.waiting.total())
        assert len(deliveries) <= max_messages
        assert len(deliveries) <= 1 or sum(len(d.body) for d in deliveries) <= max_bytes
        self.waiting -= bodies
        self.held += deliveries

    # What is held may depend on how fast a broker sends, so neither the choice of the rule nor
    # that of the messages looks at it: the same choices are possible each time.
    @precondition(lambda self: self.consumer is not None)
    @rule(indexes=st.sets(st.integers(0, 30)))
    def acknowledge(self, indexes: set[int]) -> None:
        assert self.consumer is not None
        chosen = {index for index in indexes if index < len(self.held)}
        self.consumer.acknowledge([self.held[index] for index in sorted(chosen)])
        self.held = [one for index, one in enumerate(self.held) if index not in chosen]

    @precondition(lambda self: self.consumer is not None)
    @rule()
    def close(self) -> None:
        assert self.consumer is not None
        self.consumer.close()
        self.consumer = None
        self.waiting.update(delivery.body for delivery in self.held)
        self.held = []

    @precondition(lambda self: self.consumer is None)
    @rule()
    def reopen(self) -> None:
        self.transport.close()
        self.transport = self.place.open()

    @invariant()
    def depth_counts_all_that_is_not_acknowledged(self) -> None:
        bodies = [*self.waiting.elements(), *(delivery.body for delivery in self.held)]
        depth = Depth(len(bodies), sum(map(len, bodies)))
        check_depth(self.transport, "work", depth, consumed=self.consumer is not None)

    def teardown(self) -> None:
        if self.consumer is not None:
            self.close()
        assert Counter(drain(self.transport, "work")) == self.waiting
        self.transport.close()


def test_any_sequence_of_calls_keeps_the_messages(new_place: Callable[[], Place]) -> None:
    class Machine(QueueMachine):
        def __init__(self) -> None:
            super().__init__(new_place())

    # Each of a broker's answers takes a way through several processes.
    examples = 30 if isinstance(new_place(), SpoolPlace) else 12
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, database=None
        ),
    )
