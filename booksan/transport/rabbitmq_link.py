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

from booksan.errors import TransportError
from booksan.pulse import beat
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
