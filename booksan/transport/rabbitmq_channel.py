"""A channel of a connection: requests that end with an answer, or with the channel."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from booksan.errors import TransportError
from booksan.transport.rabbitmq_address import BrokerAddress
from booksan.transport.rabbitmq_link import CLOSE_SECONDS, Link, explain, refuse, settle

T = TypeVar("T")

#: What the broker says when it closes a channel because of a request.
ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
PRECONDITION_FAILED = 406

#: Deliveries of one message that a quorum queue allows. From 4.0 on it drops a message after 20 if
#: nothing is said. There -1 means no limit, but 3.10 takes -1 literally and drops a message that is
#: delivered a second time: so it is a number that none reaches.
DELIVERY_LIMIT = 1_000_000_000


class ChannelClosed(TransportError):
    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Channel:
    def __init__(self, link: Link, address: BrokerAddress) -> None:
        self._link = link
        self._address = address
        self._pending: set[Future[Any]] = set()
        #: Why it cannot be used any more, and the broker's number for that.
        self.closed: tuple[str, int] | None = None
        #: Called once in the thread of the connection, with the error.
        self.on_closed: Callable[[TransportError], None] = lambda error: None
        opened: Future[Any] = Future()
        link.run(lambda connection: self._open(connection, opened), opened)
        self.raw: Any = link.wait(opened)

    def ask(self, start: Callable[[Any, Future[T]], None]) -> T:
        """Waits for the future that the function, called in the connection's thread, settles."""
        return self.wait(self.begin(start))

    def begin(self, start: Callable[[Any, Future[T]], None]) -> Future[T]:
        future: Future[T] = Future()

        def begin(_connection: Any) -> None:
            if self.closed is not None:
                refuse(future, self.error())
                return
            self._pending.add(future)
            start(self.raw, future)

        self._link.run(begin, future)
        return future

    def wait(self, future: Future[T], progress: Callable[[], object] = lambda: None) -> T:
        try:
            return self._link.wait(future, progress=progress)
        finally:
            self._pending.discard(future)

    def error(self) -> ChannelClosed:
        text, code = self.closed or ("the channel is open", 0)
        return ChannelClosed(text, code)

    def declare(self, queue: str) -> None:
        """Makes the queue if it is not there."""
        name = self._address.queue_name(queue)
        arguments: dict[str, object] = {"x-queue-type": self._address.queue_type}
        if self._address.queue_type == "quorum":
            arguments["x-delivery-limit"] = DELIVERY_LIMIT
        self.ask(
            lambda raw, future: raw.queue_declare(
                name, durable=True, arguments=arguments, callback=lambda _: settle(future, None)
            )
        )
        # Nothing comes by this way, but making it has the broker sync what it knows of its
        # queues. 3.10, killed right after a declaration, came back without the queue and the
        # messages that it had confirmed since.
        self.ask(
            lambda raw, future: raw.queue_bind(
                name, "amq.direct", routing_key=name, callback=lambda _: settle(future, None)
            )
        )

    def close(self) -> None:
        """Returns when the broker has let go of it."""

        def begin(raw: Any, future: Future[None]) -> None:
            self.on_closed = lambda error: settle(future, None)
            raw.close()

        if self.closed is None and self._link.lost is None:
            self._link.wait(self.begin(begin), CLOSE_SECONDS)

    def _open(self, connection: Any, opened: Future[Any]) -> None:
        raw = connection.channel(on_open_callback=lambda raw: settle(opened, raw))
        raw.add_on_close_callback(lambda _, reason: self._close(reason))

    def _close(self, reason: BaseException) -> None:
        text = self._address.hide(explain(reason))
        code = getattr(reason, "reply_code", 0)
        if code == PRECONDITION_FAILED and "inequivalent" in text:
            text += ". Name the queue_type with which it was made, or another prefix"
        self.closed = (f"the broker {self._address} closed the channel: {text}", code)
        self.on_closed(self.error())
        pending, self._pending = self._pending, set()
        for future in pending:
            refuse(future, self.error())
