"""What every transport promises.

Delivery is at least once and in any order. A message that publish confirmed survives the death of
every process and a power failure, until a consumer acknowledges it. A message is whole or not
there. The queue need not exist before the first message to it.

A transport and its consumers belong to the process that opened them and are never carried across
a fork: the child would share connections, locks and positions with its parent. Fork first.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from booksan.errors import TransportError
from booksan_common.backoff import Backoff

#: A first character other than a dot keeps `.`, `..` and hidden names out; 200 characters leave
#: room for prefixes within the 255 bytes that file systems and brokers allow.
QUEUE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")

#: Messages that any consumer may hold unacknowledged. A broker sends no more ahead, since they
#: wait in the consumer's memory.
HOLD = 64

#: Seconds between two looks at full queues: short at first, because a worker may be about to
#: acknowledge a group, longer later, because a look at a long queue is not free; how they grow.
LOOKS = (0.005, 0.25, 1.5)


class Outgoing(NamedTuple):
    queue: str
    body: bytes


class Delivery(NamedTuple):
    tag: str
    body: bytes


class Depth(NamedTuple):
    messages: int
    bytes: int


class Closing(ABC):
    """What a `with` closes."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Consumer(Closing):
    """The only reader of a queue, over all processes. One thread uses it; any may wake it."""

    @abstractmethod
    def receive(self, max_messages: int, max_bytes: int, timeout: float) -> list[Delivery]:
        """What is waiting, oldest first, and was not handed out by this consumer before.

        Blocks up to timeout seconds for the first message. The list is empty on timeout or when
        woken. One message comes even if it alone is over max_bytes. Who holds HOLD messages that
        are not acknowledged may be given no more.
        """

    @abstractmethod
    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        """Removes messages for good. Each must be from this consumer and not acknowledged yet."""

    @abstractmethod
    def wake(self) -> None:
        """Makes a blocked receive, or else the next one, return at once with nothing.

        May be called from a signal handler and from any thread, also after close.
        """

    @abstractmethod
    def close(self) -> None:
        """Gives the queue back; what is not acknowledged goes to the next consumer."""


class Transport(Closing):
    """A way to the queues. Any number of threads may publish at once."""

    @abstractmethod
    def publish(self, messages: Sequence[Outgoing]) -> None:
        """Returns when all messages are confirmed, that is, durable.

        After an exception some may be there and some not: publish all of them again.
        """

    @abstractmethod
    def consume(self, queue: str) -> Consumer:
        """Becomes the consumer of the queue; QueueBusy if it has one already."""

    @abstractmethod
    def depth(self, queue: str) -> Depth:
        """What is waiting; nothing in a queue that does not exist yet.

        The spool counts exactly, and with it what its consumer holds. A broker leaves out what it
        has sent to the consumer, which is bounded, may lag for a moment, and does not tell the
        bytes: they are estimated from what this transport published to the queue.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the use of the transport. Its consumers are closed before, by their owners."""

    def wait_for_room(self, queues: Collection[str], limit: Depth, timeout: float) -> bool:
        """True as soon as every queue is below both limits, False if that takes too long."""
        deadline = time.monotonic() + timeout
        pauses = Backoff(*LOOKS)
        while not all(_has_room(self.depth(queue), limit) for queue in queues):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(next(pauses), left))
        return True


def check_queue_name(queue: str) -> None:
    if not QUEUE_NAME.fullmatch(queue):
        raise TransportError(
            f"{queue!r} is not a queue name: use up to 200 letters, digits, '.', '-' and '_', "
            "with no '.' in front"
        )


def _has_room(depth: Depth, limit: Depth) -> bool:
    return depth.messages < limit.messages and depth.bytes < limit.bytes
