"""Where the contract is tested: the transports, and the processes that use them with the test."""

import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from booksan.broker import Broker
from booksan.errors import QueueBusy
from booksan.transport import (
    Consumer,
    Delivery,
    Depth,
    Outgoing,
    Spool,
    Transport,
    open_transport,
)
from booksan.transport.base import HOLD
from booksan.transport.rabbitmq import RabbitMQ
from booksan.transport.rabbitmq_address import parse_broker_address
from tests.support.broker import delete_queues, new_prefix

PROJECT = Path(__file__).parents[2]

#: Where an actor finds the address, which holds a password.
ADDRESS = "BOOKSAN_TEST_ADDRESS"

#: Seconds that something may take which should take no time, on a machine that is busy.
SOON = 30.0

ALL_BYTES = 1 << 40

#: A body that no test publishes.
LAST = b"the last message of " + bytes(16)


class Actor:
    """A process that plays a role of tests/support/actors.py."""

    def __init__(self, address: str, role: str, *arguments: object) -> None:
        words = [role, *map(str, arguments)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.actors", *words],
            cwd=PROJECT,
            env={**os.environ, ADDRESS: address},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def hear(self) -> str:
        """The next line that it says; it died if there is none."""
        line = self._output.readline()
        assert line, f"the actor ended with {self._process.wait()}"
        return line.strip()

    def tell(self, line: str) -> None:
        self._input.write(line + "\n")
        self._input.flush()

    def kill(self) -> list[str]:
        """Kills it with -9 and returns the lines that were not heard yet."""
        self._process.kill()
        # Not by communicate, which would miss what readline has read ahead.
        lines = self._output.read().split("\n")
        self._finish()
        return lines[:-1]

    def join(self) -> None:
        assert self._output.read() == ""
        assert self._finish() == 0

    def end(self) -> None:
        if self._process.returncode is None:
            self.kill()

    def _finish(self) -> int:
        self._input.close()
        self._output.close()
        return self._process.wait(SOON)


class Place(ABC):
    """One fresh set of queues, to be used from this process and from actors."""

    def __init__(self, address: str, cleanup: ExitStack) -> None:
        self.address = address
        self._cleanup = cleanup

    def open(self) -> Transport:
        transport = self._open()
        self._cleanup.callback(transport.close)
        return transport

    def actor(self, role: str, queue: str, *arguments: object) -> Actor:
        actor = Actor(self.address, role, queue, *arguments)
        self._cleanup.callback(actor.end)
        return actor

    @abstractmethod
    def _open(self) -> Transport: ...


class SpoolPlace(Place):
    def __init__(self, path: Path, cleanup: ExitStack) -> None:
        super().__init__(f"spool:{path}", cleanup)

    def _open(self) -> Transport:
        return open_transport(self.address)


class BrokerPlace(Place):
    """A prefix of its own on a broker that all tests share."""

    def __init__(self, broker: Broker, cleanup: ExitStack) -> None:
        prefix = new_prefix()
        super().__init__(f"{broker.url}#{prefix}", cleanup)
        self._queues: set[str] = set()
        cleanup.callback(lambda: delete_queues(broker, [f"{prefix}.{q}" for q in self._queues]))

    def actor(self, role: str, queue: str, *arguments: object) -> Actor:
        self._queues.add(queue)
        return super().actor(role, queue, *arguments)

    def _open(self) -> Transport:
        return NotingRabbitMQ(self.address, self._queues)


class NotingRabbitMQ(RabbitMQ):
    """Notes the queues that it makes, so that they can be deleted: a broker does not list them."""

    def __init__(self, address: str, queues: set[str]) -> None:
        super().__init__(parse_broker_address(address))
        self._queues = queues

    def publish(self, messages: Sequence[Outgoing]) -> None:
        super().publish(messages)
        self._queues.update(message.queue for message in messages)

    def consume(self, queue: str) -> Consumer:
        consumer = super().consume(queue)
        self._queues.add(queue)
        return consumer


def is_exact(transport: Transport) -> bool:
    """Whether depth counts all that is not acknowledged, to the byte, at every moment."""
    return isinstance(transport, Spool)


def eventually(condition: Callable[[], bool], seconds: float = SOON) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def check_depth(transport: Transport, queue: str, depth: Depth, *, consumed: bool = False) -> None:
    """The depth of a queue in which so much is not acknowledged.

    A broker may lag, and leaves out what the queue's consumer holds, if it is consumed.
    """
    if is_exact(transport):
        assert transport.depth(queue) == depth
        return
    least = 0 if consumed else depth.messages
    assert eventually(lambda: least <= transport.depth(queue).messages <= depth.messages), (
        f"{transport.depth(queue)} instead of {depth}"
    )


def consume_soon(transport: Transport, queue: str) -> Consumer:
    """A broker may need a moment to notice that the last consumer is dead."""
    deadline = time.monotonic() + SOON
    while True:
        try:
            return transport.consume(queue)
        except QueueBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def receive_exactly(consumer: Consumer, number: int) -> list[Delivery]:
    assert number <= HOLD, "more than a consumer may hold"
    deliveries: list[Delivery] = []
    while len(deliveries) < number:
        more = consumer.receive(number - len(deliveries), ALL_BYTES, SOON)
        assert more, f"only {len(deliveries)} of {number} messages came"
        deliveries += more
    return deliveries


def drain(transport: Transport, queue: str) -> list[bytes]:
    """All that is in the queue, acknowledged."""
    with consume_soon(transport, queue) as consumer:
        if is_exact(transport):
            return _take_until(consumer, lambda _: transport.depth(queue).messages == 0)
        # What its consumer holds is not in a broker's count. But its queues keep the order, so
        # this message comes last.
        transport.publish([Outgoing(queue, LAST)])
        bodies = _take_until(consumer, lambda bodies: LAST in bodies)
        bodies.remove(LAST)
        return bodies


def _take_until(consumer: Consumer, done: Callable[[list[bytes]], bool]) -> list[bytes]:
    bodies: list[bytes] = []
    while not done(bodies):
        deliveries = consumer.receive(100, 64 << 20, SOON)
        assert deliveries, "the queue is not empty but delivers nothing"
        consumer.acknowledge(deliveries)
        bodies += [delivery.body for delivery in deliveries]
    return bodies
