"""A transport in memory whose order is seeded and whose messages come twice now and then."""

import random
from collections.abc import Iterable, Sequence

from booksan.errors import QueueBusy
from booksan.transport.base import Consumer, Delivery, Depth, Outgoing, Transport


class MemoryTransport(Transport):
    """Keeps the contract, and uses all the freedom that the contract leaves."""

    def __init__(self, seed: int, repeats: float = 0.0) -> None:
        self.queues: dict[str, dict[str, bytes]] = {}
        self.consumers: set[str] = set()
        self.chance = random.Random(seed)
        self.repeats = repeats
        self.published: list[Outgoing] = []
        #: Which of them are confirmed and lost all the same, by their place in that order.
        self.lost: set[int] = set()
        #: Queues that hand out nothing for now.
        self.blocked: set[str] = set()
        self._count = 0

    def publish(self, messages: Sequence[Outgoing]) -> None:
        for message in messages:
            self.published.append(message)
            if len(self.published) - 1 in self.lost:
                continue
            for _ in range(2 if self.chance.random() < self.repeats else 1):
                self._count += 1
                self.queues.setdefault(message.queue, {})[str(self._count)] = message.body

    def consume(self, queue: str) -> "MemoryConsumer":
        if queue in self.consumers:
            raise QueueBusy(queue)
        self.consumers.add(queue)
        return MemoryConsumer(self, queue)

    def depth(self, queue: str) -> Depth:
        waiting = self.queues.get(queue, {})
        return Depth(len(waiting), sum(map(len, waiting.values())))

    def waiting(self) -> list[str]:
        return [queue for queue, messages in self.queues.items() if messages]

    def close(self) -> None:
        self.consumers.clear()


class MemoryConsumer(Consumer):
    def __init__(self, transport: MemoryTransport, queue: str) -> None:
        self.transport = transport
        self.queue = queue
        self.handed_out: set[str] = set()

    def receive(self, max_messages: int, max_bytes: int, timeout: float) -> list[Delivery]:
        blocked = self.queue in self.transport.blocked
        waiting = {} if blocked else self.transport.queues.get(self.queue, {})
        tags = [tag for tag in waiting if tag not in self.handed_out]
        self.transport.chance.shuffle(tags)
        chosen = tags[: self.transport.chance.randint(1, max_messages)]
        self.handed_out.update(chosen)
        return [Delivery(tag, waiting[tag]) for tag in chosen]

    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            del self.transport.queues[self.queue][delivery.tag]

    def wake(self) -> None:
        pass

    def close(self) -> None:
        self.transport.consumers.discard(self.queue)
