"""Roles for processes that are killed, or that work beside the test."""

import os
import random
import signal
import sys
from collections.abc import Callable

from booksan.transport import Outgoing, Transport, open_transport
from tests.support.places import ADDRESS, receive_exactly


def body_of(index: int, size: int) -> bytes:
    """The body of the message with this number: any two are different, also if cut short."""
    return index.to_bytes(8) + random.Random(index).randbytes(size - 8)


def index_of(body: bytes) -> int:
    """The number of a message, which must be whole."""
    index = int.from_bytes(body[:8])
    assert body == body_of(index, len(body)), f"message {index} is damaged"
    return index


def say(text: object) -> None:
    print(text, flush=True)


def publish_for_ever(transport: Transport, queue: str, size: str) -> None:
    index = 0
    while True:
        transport.publish([Outgoing(queue, body_of(index, int(size)))])
        say(index)
        index += 1


def publish_range(transport: Transport, queue: str, first: str, last: str) -> None:
    for index in range(int(first), int(last)):
        transport.publish([Outgoing(queue, body_of(index, 100))])


def publish_on_demand(transport: Transport, queue: str) -> None:
    say("ready")
    for line in sys.stdin:
        transport.publish([Outgoing(queue, line.strip().encode())])


def hold(transport: Transport, queue: str, number: str) -> None:
    consumer = transport.consume(queue)
    receive_exactly(consumer, int(number))
    say("holding")
    signal.pause()


def acknowledge_then_hold(transport: Transport, queue: str, number: str) -> None:
    """Acknowledges some, takes as many more, and says which it acknowledged."""
    consumer = transport.consume(queue)
    deliveries = receive_exactly(consumer, int(number))
    consumer.acknowledge(deliveries)
    receive_exactly(consumer, int(number))
    say(" ".join(str(index_of(delivery.body)) for delivery in deliveries))
    signal.pause()


ROLES: dict[str, Callable[..., None]] = {
    role.__name__: role
    for role in (publish_for_ever, publish_range, publish_on_demand, hold, acknowledge_then_hold)
}

if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    with open_transport(os.environ[ADDRESS]) as transport:
        ROLES[role](transport, *arguments)
