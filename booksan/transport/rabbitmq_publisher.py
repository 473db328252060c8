"""The connection that publishes, with many messages on their way to being confirmed."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import pika

from booksan.errors import TransportError
from booksan.transport.base import Outgoing
from booksan.transport.rabbitmq_address import BrokerAddress
from booksan.transport.rabbitmq_channel import Channel
from booksan.transport.rabbitmq_link import Link, refuse, settle

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
