"""The reading end of a spool queue."""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from booksan.errors import QueueBusy, TransportError
from booksan.transport.base import Consumer, Delivery
from booksan.transport.spool_files import (
    QueueFiles,
    list_messages,
    message_size,
    os_errors,
    read_message,
    try_lock,
)

#: Seconds after which a waiting consumer looks into the directory though no bell rang: a producer
#: may have died between its rename and the bell.
RESCAN_SECONDS = 1.0


class Bell:
    """A FIFO in which a byte means: look again."""

    def __init__(self, path: Path) -> None:
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Open for writing too: with a writer the FIFO never reports end of file.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        # Keeps a ring of another thread from hitting a descriptor that is closed and used anew.
        # It is reentrant because a signal handler may ring while its own thread holds it.
        self._lock = threading.RLock()

    def ring(self) -> None:
        # A full FIFO is ringing already.
        with self._lock, suppress(BlockingIOError):
            if self._descriptor >= 0:
                os.write(self._descriptor, b"!")

    def wait(self, seconds: float) -> None:
        self._poll.poll(seconds * 1000)

    def silence(self) -> bool:
        """Takes what is in the FIFO; True if it rang."""
        try:
            return bool(os.read(self._descriptor, 65536))
        except BlockingIOError:
            return False

    def close(self) -> None:
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)


class SpoolConsumer(Consumer):
    def __init__(self, files: QueueFiles) -> None:
        self._files = files
        self._lock = _lock_queue(files)
        try:
            with os_errors("open", files.bell):
                self._bell = Bell(files.bell)
        except BaseException:
            os.close(self._lock)
            raise
        self._closed = False
        self._woken = False
        self._known: deque[str] = deque()
        self._unacknowledged: set[str] = set()
        self._rang = True
        self._next_look = 0.0

    def receive(self, max_messages: int, max_bytes: int, timeout: float) -> list[Delivery]:
        max_messages = max(1, max_messages)
        deadline = time.monotonic() + timeout
        while True:
            self._listen()
            if self._woken:
                self._woken = False
                return []
            names = self._choose(max_messages, max_bytes)
            if names:
                return self._hand_out(names)
            now = time.monotonic()
            if now >= deadline:
                return []
            self._bell.wait(max(0.0, min(deadline, self._next_look) - now))

    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        # The directory is not synced: a message that a power failure brings back is delivered
        # again, which is harmless because receivers know what they have handled.
        for delivery in deliveries:
            path = self._files.messages / delivery.tag
            if delivery.tag not in self._unacknowledged:
                raise TransportError(f"cannot acknowledge {path}: this consumer does not hold it")
            self._unacknowledged.remove(delivery.tag)
            with os_errors("acknowledge", path):
                path.unlink()

    def wake(self) -> None:
        # The flag before the ring: who hears the ring finds the flag.
        self._woken = True
        self._bell.ring()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._unacknowledged.clear()
        self._bell.close()
        os.close(self._lock)

    def _listen(self) -> None:
        """Silences the bell before anything it may announce is looked at, so none is missed."""
        if self._closed:
            raise TransportError(f"the consumer of {self._files.directory} is closed")
        self._rang = self._bell.silence() or self._rang

    def _choose(self, max_messages: int, max_bytes: int) -> list[str]:
        """Names to hand out, from those known as long as they suffice.

        What came since the last look is younger than what is known, so nothing is starved, and a
        long queue costs one listing and not one for each receive.
        """
        names = self._pick(max_messages, max_bytes)
        exhausted = len(names) == len(self._known) and len(names) < max_messages
        if exhausted and (self._rang or time.monotonic() >= self._next_look):
            self._look()
            names = self._pick(max_messages, max_bytes)
        return names

    def _pick(self, max_messages: int, max_bytes: int) -> list[str]:
        names: list[str] = []
        room = max_bytes
        for name in islice(self._known, max_messages):
            room -= message_size(name)
            if names and room < 0:
                break
            names.append(name)
        return names

    def _look(self) -> None:
        with os_errors("list", self._files.messages):
            names = list_messages(self._files.messages)
        self._known = deque(sorted(name for name in names if name not in self._unacknowledged))
        self._rang = False
        self._next_look = time.monotonic() + RESCAN_SECONDS

    def _hand_out(self, names: list[str]) -> list[Delivery]:
        try:
            deliveries = [Delivery(name, self._read(name)) for name in names]
        except TransportError:
            self._known.clear()
            self._rang = True
            raise
        for name in names:
            self._known.popleft()
            self._unacknowledged.add(name)
        return deliveries

    def _read(self, name: str) -> bytes:
        path = self._files.messages / name
        with os_errors("read the message", path):
            return read_message(path, message_size(name))


def _lock_queue(files: QueueFiles) -> int:
    with os_errors("lock", files.lock):
        lock = try_lock(files.lock)
    if lock is None:
        raise QueueBusy(
            f"the queue {files.directory} has a consumer already: "
            "stop the other process that works on it"
        )
    return lock
