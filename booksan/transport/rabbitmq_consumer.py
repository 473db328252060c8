"""The reading end of a queue on a broker."""

import secrets
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from booksan.errors import TransportError
from booksan.transport.base import HOLD, Consumer, Delivery
from booksan.transport.rabbitmq_address import BrokerAddress
from booksan.transport.rabbitmq_link import (
    ACCESS_REFUSED,
    Channel,
    ChannelClosed,
    ConsumerLock,
    Link,
    busy,
    settle,
)


class RabbitMQConsumer(Consumer):
    def __init__(self, link: Link, address: BrokerAddress, queue: str) -> None:
        self._name = address.queue_name(queue)
        self._link = link
        # None wakes. The queue is one that signal handlers may use too.
        self._inbox: SimpleQueue[tuple[int, bytes] | TransportError | None] = SimpleQueue()
        self._id = secrets.token_hex(4)
        self._ready: deque[Delivery] = deque()
        self._held: dict[str, int] = {}
        self._lost: TransportError | None = None
        self._woken = False
        self._closed = False
        self._lock = None
        if address.queue_type == "quorum":
            self._lock = ConsumerLock(link, address, self._name)
        self._channel = Channel(link, address)
        self._channel.on_closed = self._inbox.put
        try:
            self._channel.declare(queue)
            self._channel.ask(self._ask_for_prefetch)
            self._channel.ask(self._ask_for_messages)
        except ChannelClosed as error:
            self.close()
            if error.code == ACCESS_REFUSED and "exclusive" in str(error):
                raise busy(self._name, address) from error
            raise
        except BaseException:
            self.close()
            raise

    def receive(self, max_messages: int, max_bytes: int, timeout: float) -> list[Delivery]:
        if self._closed:
            raise TransportError(f"the consumer of {self._name} is closed")
        deadline = time.monotonic() + timeout
        self._collect(0)
        while True:
            self._check()
            if self._woken:
                self._woken = False
                return []
            if self._ready:
                return self._hand_out(max(1, max_messages), max_bytes)
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            self._collect(left)

    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        tags: list[int] = []
        for delivery in deliveries:
            tag = self._held.get(delivery.tag)
            if tag is None or tag in tags:
                raise TransportError(
                    f"cannot acknowledge {delivery.tag} of {self._name}: "
                    "this consumer does not hold it"
                )
            tags.append(tag)
        if tags:
            self._settle(tags)

    def wake(self) -> None:
        self._inbox.put(None)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # A connection that is lost has given the queue back already.
        with suppress(TransportError):
            self._channel.close()
            if self._lock is not None:
                self._lock.release()

    @property
    def alive(self) -> bool:
        return not self._closed and self._channel.closed is None

    def _check(self) -> None:
        if self._lost is not None:
            raise TransportError(str(self._lost))
        if self._link.lost is not None:
            raise TransportError(self._link.lost)

    def _settle(self, tags: list[int]) -> None:
        def start(raw: Any, future: Future[None]) -> None:
            self._acknowledge(raw, tags)
            # Acknowledgements are not answered, but requests are dealt with in turn: with the
            # answer to this one, which changes nothing, the broker has taken them.
            self._ask_for_prefetch(raw, future)

        self._channel.ask(start)
        for tag in tags:
            del self._held[self._tag(tag)]

    def _ask_for_prefetch(self, raw: Any, future: Future[None]) -> None:
        raw.basic_qos(prefetch_count=HOLD, callback=lambda _: settle(future, None))

    def _ask_for_messages(self, raw: Any, future: Future[None]) -> None:
        gone = TransportError(f"the queue {self._name} was removed from the broker")
        raw.add_on_cancel_callback(lambda _: self._inbox.put(gone))
        raw.basic_consume(
            self._name,
            lambda _raw, method, _properties, body: self._inbox.put((method.delivery_tag, body)),
            exclusive=True,
            callback=lambda _: settle(future, None),
        )

    def _collect(self, seconds: float) -> None:
        """Takes all that has come, and waits for something if nothing has."""
        with suppress(Empty):
            self._sort(self._inbox.get(timeout=seconds) if seconds else self._inbox.get_nowait())
            while True:
                self._sort(self._inbox.get_nowait())

    def _sort(self, item: tuple[int, bytes] | TransportError | None) -> None:
        if item is None:
            self._woken = True
        elif isinstance(item, TransportError):
            self._lost = item
        else:
            self._ready.append(Delivery(self._tag(item[0]), item[1]))

    def _hand_out(self, max_messages: int, max_bytes: int) -> list[Delivery]:
        deliveries: list[Delivery] = []
        room = max_bytes
        while self._ready and len(deliveries) < max_messages:
            room -= len(self._ready[0].body)
            if deliveries and room < 0:
                break
            delivery = self._ready.popleft()
            self._held[delivery.tag] = int(delivery.tag.partition("-")[2])
            deliveries.append(delivery)
        return deliveries

    def _tag(self, number: int) -> str:
        """Numbers begin anew with each consumer, so they alone do not tell whose they are."""
        return f"{self._id}-{number}"

    def _acknowledge(self, raw: Any, tags: list[int]) -> None:
        """In one word if they are the oldest of those handed out: others are younger."""
        rest = set(self._held.values()) - set(tags)
        if not rest or min(rest) > max(tags):
            raw.basic_ack(max(tags), multiple=True)
            return
        for tag in tags:
            raw.basic_ack(tag)
