"""The transport over a RabbitMQ broker: one durable queue per name, all messages persistent.

Two connections, made when they are needed: a broker under an alarm stops reading from those that
publish, and acknowledgements, which end the alarm, must get through. A lost connection fails the
calls that are under way; the next call makes a new one.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from booksan.errors import TransportError
from booksan.transport.base import Consumer, Depth, Outgoing, Transport, check_queue_name
from booksan.transport.rabbitmq_address import BrokerAddress
from booksan.transport.rabbitmq_channel import NOT_FOUND, Channel, ChannelClosed
from booksan.transport.rabbitmq_consumer import RabbitMQConsumer
from booksan.transport.rabbitmq_link import HEARTBEAT, Link, settle
from booksan.transport.rabbitmq_lock import busy
from booksan.transport.rabbitmq_publisher import Publisher

#: Messages after which those before count half in the mean size of a queue's messages.
MEMORY = 256


class RabbitMQ(Transport):
    def __init__(self, address: BrokerAddress, *, heartbeat: int = HEARTBEAT) -> None:
        # Certificates that cannot be read are told now and not at the first message.
        address.tls_context()
        self._address = address
        self._sizes = Sizes()
        self._publisher = Slot(address, lambda: Publisher(address, heartbeat))
        self._reader = Slot(address, lambda: Reader(address, heartbeat))

    def publish(self, messages: Sequence[Outgoing]) -> None:
        for queue in {message.queue for message in messages}:
            check_queue_name(queue)
        self._publisher.get().publish(messages)
        self._sizes.add(messages)

    def consume(self, queue: str) -> Consumer:
        check_queue_name(queue)
        return self._reader.get().consume(queue)

    def depth(self, queue: str) -> Depth:
        """The broker tells how many messages wait; of how many bytes is an estimate."""
        check_queue_name(queue)
        messages = self._reader.get().count(queue)
        return Depth(messages, round(messages * self._sizes.mean(queue)))

    def close(self) -> None:
        self._publisher.close()
        self._reader.close()


class Reader:
    """The connection that never publishes."""

    def __init__(self, address: BrokerAddress, heartbeat: int) -> None:
        self._address = address
        self._link = Link(address, heartbeat)
        self._consumers: dict[str, RabbitMQConsumer] = {}
        self._counting = threading.Lock()
        self._counter: Channel | None = None

    @property
    def alive(self) -> bool:
        return self._link.lost is None

    def consume(self, queue: str) -> Consumer:
        # The lock of a quorum queue refuses other connections only.
        known = self._consumers.get(queue)
        if known is not None and known.alive:
            raise busy(self._address.queue_name(queue), self._address)
        self._consumers[queue] = RabbitMQConsumer(self._link, self._address, queue)
        return self._consumers[queue]

    def count(self, queue: str) -> int:
        """Asks on a channel of its own, which the broker closes if there is no such queue."""
        name = self._address.queue_name(queue)

        def start(raw: Any, future: Future[int]) -> None:
            raw.queue_declare(
                name,
                passive=True,
                callback=lambda frame: settle(future, frame.method.message_count),
            )

        with self._counting:
            if self._counter is None or self._counter.closed is not None:
                self._counter = Channel(self._link, self._address)
            try:
                return self._counter.ask(start)
            except ChannelClosed as error:
                if error.code == NOT_FOUND:
                    return 0
                raise

    def close(self) -> None:
        self._link.close()


class Connected(Protocol):
    @property
    def alive(self) -> bool: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Connected)


class Slot(Generic[C]):
    """Holds a connection, and makes another one when it is lost."""

    def __init__(self, address: BrokerAddress, connect: Callable[[], C]) -> None:
        self._address = address
        self._connect = connect
        self._lock = threading.Lock()
        self._current: C | None = None
        self._failed_at = 0.0
        self._failure = ""
        self._closed = False

    def get(self) -> C:
        asked = time.monotonic()
        with self._lock:
            if self._closed:
                raise TransportError(f"the transport to {self._address} is closed")
            if self._current is not None and self._current.alive:
                return self._current
            if self._failed_at >= asked:
                # An attempt that began before us, or while we waited, is ours as well: one after
                # the other, many threads would wait very long for a broker that is not there.
                raise TransportError(self._failure)
            self._end_current()
            return self._connect_anew()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end_current()

    def _connect_anew(self) -> C:
        try:
            self._current = self._connect()
        except TransportError as error:
            self._failed_at, self._failure = time.monotonic(), str(error)
            raise
        return self._current

    def _end_current(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.close()


class Sizes:
    """The mean sizes of the messages that this process published lately, by queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, messages: Sequence[Outgoing]) -> None:
        with self._lock:
            for queue, body in messages:
                number, size = self._sums.get(queue, (0.0, 0.0))
                if number >= MEMORY:
                    number, size = number / 2, size / 2
                self._sums[queue] = (number + 1, size + len(body))

    def mean(self, queue: str) -> float:
        with self._lock:
            number, size = self._sums.get(queue, (0.0, 0.0))
        return size / number if number else 0.0
