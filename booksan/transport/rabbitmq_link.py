"""One connection to a broker, served by a thread of its own.

The thread keeps heartbeats going while the rest of the process works. All that belongs to pika is
touched in that thread only; other threads hand it functions and wait for futures.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import pika
from pika.adapters.select_connection import IOLoop, SelectConnection
from pika.exceptions import AMQPError, ConnectionBlockedTimeout

from booksan.errors import QueueBusy, TransportError
from booksan.heartbeat import beat
from booksan.transport.rabbitmq_address import BrokerAddress

T = TypeVar("T")

#: Seconds between heartbeats: a dead peer is noticed after two of them.
HEARTBEAT = 15
#: Seconds for the connection to be made, first its socket, then all of it.
SOCKET_SECONDS = 4.0
CONNECT_SECONDS = 8.0
#: Seconds that a broker under an alarm (disk, memory) may keep its publishers waiting.
BLOCKED_SECONDS = 60.0
#: Seconds for any other answer of the broker: longer than an alarm may last.
ANSWER_SECONDS = 75.0
#: Seconds between two signs of life of a worker that waits: its supervisor is less patient.
PULSE = 5.0
#: Seconds for an orderly end. A broker under an alarm does not even read that we want one.
CLOSE_SECONDS = 3.0

# What pika logs comes to the caller as an error anyway, with a text that tells what to do.
logging.getLogger("pika").setLevel(logging.CRITICAL)


def settle(future: Future[T], result: T) -> None:
    """Called in the thread of the connection, like all that settles futures."""
    if not future.done():
        future.set_result(result)


def refuse(future: Future[Any], error: TransportError) -> None:
    if not future.done():
        future.set_exception(error)


class Link:
    def __init__(self, address: BrokerAddress, heartbeat: int) -> None:
        parameters = _parameters(address, heartbeat)
        self._address = address
        self._loop = IOLoop()
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._opened: Future[None] = Future()
        self._waiting.add(self._opened)
        self._ended = False
        self._connection: Any = None
        #: Why it cannot be used any more.
        self.lost: str | None = None
        self._thread = threading.Thread(
            target=self._run, args=(parameters,), name=f"link to {address}", daemon=True
        )
        self._thread.start()
        self._wait_until_open()

    def run(self, function: Callable[[Any], None], future: Future[Any]) -> None:
        """Has the thread call the function with the connection; the future fails with the link."""
        with self._lock:
            if self.lost is not None:
                raise TransportError(self.lost)
            self._waiting.add(future)
            self._call(lambda: function(self._connection))

    def wait(
        self,
        future: Future[T],
        seconds: float | None = None,
        progress: Callable[[], object] = lambda: None,
    ) -> T:
        """There is no limit as long as the progress changes within each period of seconds."""
        seconds = ANSWER_SECONDS if seconds is None else seconds
        seen, deadline = progress(), time.monotonic() + seconds
        try:
            while True:
                # Who waits for a broker does not hang, however long an alarm lasts.
                beat()
                try:
                    return future.result(max(0.0, min(PULSE, deadline - time.monotonic())))
                except TimeoutError:
                    if time.monotonic() < deadline:
                        continue
                    if progress() == seen:
                        raise self._give_up(seconds) from None
                    seen, deadline = progress(), time.monotonic() + seconds
        finally:
            with self._lock:
                self._waiting.discard(future)

    def abort(self, why: str) -> None:
        """Ends the connection without a word to the broker. From now on it counts as lost."""
        with self._lock:
            if self.lost is None:
                self.lost = why
            if not self._ended:
                self._call(lambda: self._terminate(why))

    def close(self) -> None:
        """Ends the connection in order if possible; nothing of it is left afterwards."""
        with self._lock:
            if not self._ended:
                self._call(self._begin_close)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self.abort("the transport is closed")
            self._thread.join(CLOSE_SECONDS)

    def _give_up(self, seconds: float) -> TransportError:
        text = f"the broker {self._address} did not answer in {seconds:.0f} seconds"
        self.abort(text)
        return TransportError(text)

    def _wait_until_open(self) -> None:
        try:
            self.wait(self._opened, CONNECT_SECONDS + SOCKET_SECONDS)
        except BaseException:
            self.abort("the connection is not wanted any more")
            self._thread.join(CLOSE_SECONDS)
            raise

    def _run(self, parameters: Any) -> None:
        try:
            self._connection = SelectConnection(
                parameters,
                on_open_callback=lambda _: settle(self._opened, None),
                on_open_error_callback=lambda _, error: self._end("cannot connect to", error),
                on_close_callback=lambda _, error: self._end("lost the connection to", error),
                custom_ioloop=self._loop,
            )
            self._loop.start()
        finally:
            # Also after an error of our own, which shows up as that of the thread.
            self._lose(f"the connection to the broker {self._address} has ended")
            with self._lock:
                self._ended = True
                self._loop.close()

    def _call(self, function: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                function()
            except AMQPError as error:
                self._terminate(explain(error))

        self._loop.add_callback_threadsafe(guarded)

    def _begin_close(self) -> None:
        if self._connection.is_open:
            self._connection.close()
        else:
            self._terminate("the transport is closed")

    def _terminate(self, why: str) -> None:
        """The way that pika itself goes when heartbeats are missed; it has none for others."""
        if self._connection is None or self._connection.is_closed:
            self._loop.stop()
        else:
            self._connection._terminate_stream(AMQPError(why))

    def _end(self, what: str, error: BaseException) -> None:
        reason = self._address.hide(explain(error))
        self._lose(f"{what} the broker {self._address}: {reason}")
        self._loop.stop()

    def _lose(self, text: str) -> None:
        with self._lock:
            if self.lost is None:
                self.lost = text
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            refuse(future, TransportError(self.lost))


def explain(error: BaseException) -> str:
    """The words of the innermost error: pika wraps them several times."""
    inner = _inner(error)
    if inner is not None:
        return explain(inner)
    if isinstance(error, ConnectionBlockedTimeout):
        return "it is short of disk or memory and takes no messages until there is more"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    code, text = getattr(error, "reply_code", None), getattr(error, "reply_text", None)
    if text:
        return f"{text} ({code})"
    return str(error) or type(error).__name__


def _inner(error: BaseException) -> BaseException | None:
    candidates = [*getattr(error, "exceptions", ()), getattr(error, "exception", None)]
    candidates += error.args
    return next((one for one in reversed(candidates) if isinstance(one, BaseException)), None)


def _parameters(address: BrokerAddress, heartbeat: int) -> Any:
    context = address.tls_context()
    return pika.ConnectionParameters(
        host=address.host,
        port=address.port,
        virtual_host=address.vhost,
        credentials=pika.PlainCredentials(address.user, address.password),
        heartbeat=heartbeat,
        socket_timeout=SOCKET_SECONDS,
        stack_timeout=CONNECT_SECONDS,
        blocked_connection_timeout=BLOCKED_SECONDS,
        ssl_options=pika.SSLOptions(context, address.host) if context else None,
        client_properties={"connection_name": "booksan"},
    )


# A channel of a connection: requests that end with an answer, or with the channel.

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


# The right to consume a queue, for queues that do not see to it themselves.


class ConsumerLock:
    """A queue that belongs to one connection and ends with it.

    Quorum queues (seen with 3.10) accept a second consumer though the first is exclusive.
    """

    def __init__(self, link: Link, address: BrokerAddress, name: str) -> None:
        # No queue of ours has a colon in its name.
        self._lock = f"{name}:consumer"
        self._channel = Channel(link, address)
        try:
            self._channel.ask(
                lambda raw, future: raw.queue_declare(
                    self._lock, exclusive=True, callback=lambda _: settle(future, None)
                )
            )
        except ChannelClosed as error:
            if error.code == RESOURCE_LOCKED:
                raise busy(name, address) from error
            raise

    def release(self) -> None:
        self._channel.ask(
            lambda raw, future: raw.queue_delete(
                self._lock, callback=lambda _: settle(future, None)
            )
        )
        self._channel.close()


def busy(name: str, address: BrokerAddress) -> QueueBusy:
    return QueueBusy(
        f"the queue {name} on {address} has a consumer already: "
        "stop the other process that works on it"
    )
