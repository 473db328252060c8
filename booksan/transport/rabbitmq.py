"""The transport over a RabbitMQ broker: one durable queue per name, many confirms in flight."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import pika

from booksan.errors import TransportError
from booksan.transport.base import Consumer, Depth, Outgoing, Transport, check_queue_name
from booksan.transport.rabbitmq_address import BrokerAddress
from booksan.transport.rabbitmq_consumer import RabbitMQConsumer
from booksan.transport.rabbitmq_link import (
    HEARTBEAT,
    NOT_FOUND,
    Channel,
    ChannelClosed,
    Link,
    busy,
    refuse,
    settle,
)

# The connection that publishes, with many messages on their way to being confirmed.

#: What may be sent and not confirmed yet, in messages and bytes, over all threads: enough to keep
#: the broker busy, and a bound for the copies that wait for the socket.
WINDOW_MESSAGES = 1000
WINDOW_BYTES = 16 << 20

#: Survives a restart of the broker.
PERSISTENT = 2


class Batch:
    """The messages of one call of publish."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.future: Future[None] = Future()

    def confirm(self) -> None:
        self.left -= 1
        if self.left == 0:
            settle(self.future, None)


class Item(NamedTuple):
    batch: Batch
    message: Outgoing


class Publisher:
    def __init__(self, address: BrokerAddress, heartbeat: int) -> None:
        self._address = address
        self._declared: set[str] = set()
        # The rest belongs to the connection's thread.
        self._outbox: deque[Item] = deque()
        self._unconfirmed: dict[int, Item] = {}
        self._flying = 0
        self._last_tag = 0
        self._link = Link(address, heartbeat)
        try:
            self._channel = Channel(self._link, address)
            self._channel.ask(self._ask_for_confirms)
        except BaseException:
            self._link.close()
            raise

    @property
    def alive(self) -> bool:
        return self._link.lost is None and self._channel.closed is None

    def publish(self, messages: Sequence[Outgoing]) -> None:
        if not messages:
            return
        for queue in {message.queue for message in messages} - self._declared:
            self._channel.declare(queue)
            self._declared.add(queue)
        batch = Batch(len(messages))

        def start(_raw: Any, future: Future[None]) -> None:
            batch.future = future
            self._outbox.extend(Item(batch, message) for message in messages)
            self._pump()

        # As long as confirms come there is no limit: the broker's disk may be slow.
        self._channel.wait(self._channel.begin(start), progress=lambda: batch.left)

    def close(self) -> None:
        self._link.close()

    def _ask_for_confirms(self, raw: Any, future: Future[None]) -> None:
        raw.add_on_return_callback(self._on_return)
        raw.confirm_delivery(self._on_confirm, callback=lambda _: settle(future, None))

    def _pump(self) -> None:
        while self._outbox and self._has_room(self._outbox[0]):
            item = self._outbox.popleft()
            if item.batch.future.done():
                # It failed: its caller publishes all of it again.
                continue
            self._last_tag += 1
            self._unconfirmed[self._last_tag] = item
            self._flying += len(item.message.body)
            self._send(self._last_tag, item.message)

    def _has_room(self, item: Item) -> bool:
        if not self._unconfirmed:
            return True
        enough = self._flying + len(item.message.body) <= WINDOW_BYTES
        return enough and len(self._unconfirmed) < WINDOW_MESSAGES

    def _send(self, tag: int, message: Outgoing) -> None:
        self._channel.raw.basic_publish(
            exchange="",
            routing_key=self._address.queue_name(message.queue),
            body=message.body,
            # The number tells which message it is, should it be returned.
            properties=pika.BasicProperties(delivery_mode=PERSISTENT, message_id=str(tag)),
            # Otherwise a message to a queue that is gone is confirmed, and gone as well.
            mandatory=True,
        )

    def _on_return(self, _raw: Any, method: Any, properties: Any, _body: bytes) -> None:
        """Comes before the confirm of the same message."""
        item = self._unconfirmed[int(properties.message_id)]
        # Somebody removed the queue: it is made anew with the next message.
        self._declared.discard(item.message.queue)
        self._refuse(item, f"returned a message ({method.reply_text})")

    def _on_confirm(self, frame: Any) -> None:
        last, positive = frame.method.delivery_tag, frame.method.NAME == "Basic.Ack"
        tags = [last]
        if frame.method.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= last]
        for tag in tags:
            item = self._unconfirmed.pop(tag)
            self._flying -= len(item.message.body)
            if positive:
                item.batch.confirm()
            else:
                self._refuse(item, "could not store a message")
        if self._channel.raw.is_open:
            self._pump()

    def _refuse(self, item: Item, what: str) -> None:
        name = self._address.queue_name(item.message.queue)
        text = f"the broker {self._address} {what} to the queue {name}: publish again"
        refuse(item.batch.future, TransportError(text))


# The transport over a RabbitMQ broker: one durable queue per name, all messages persistent.
#
# Two connections, made when they are needed: a broker under an alarm stops reading from those that
# publish, and acknowledgements, which end the alarm, must get through. A lost connection fails the
# calls that are under way; the next call makes a new one.

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
