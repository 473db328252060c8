"""The spool on disk, and the reading end of one of its queues."""

import errno
import logging
import os
import re
import select
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from booksan.errors import NoSpace, QueueBusy, TransportError
from booksan.transport.base import Consumer, Delivery
from booksan_common.files import NO_ROOM, make_directory, sync_directory, try_lock

# The spool on disk: its layout, its names, and what both ends of a queue do with files.
#
# root/queues/<queue>/messages/ one file per message, whole from the moment it is here
# root/queues/<queue>/lock held by the consumer root/queues/<queue>/bell a FIFO: the consumer
# waits on it, producers ring it root/tmp/<producer>/lock held by the producer
# root/tmp/<producer>/<message> a message that is being written

log = logging.getLogger("booksan.transport")

#: time in ns, producer, counter, size: sorted by name is sorted by age, and a listing tells sizes.
MESSAGE_NAME = re.compile(r"[0-9]{20}-[0-9a-f]{16}-[0-9]{8,}-([0-9]+)")

#: What a bell says when nobody listens (no FIFO yet, no reader, reader just gone) or when it is
#: ringing already (full). The message is there all the same.
_NOBODY_LISTENS = (errno.ENOENT, errno.ENXIO, errno.EPIPE, errno.EAGAIN)


class QueueFiles(NamedTuple):
    directory: Path
    messages: Path
    lock: Path
    bell: Path


def queue_files(root: Path, queue: str) -> QueueFiles:
    directory = root / "queues" / queue
    return QueueFiles(directory, directory / "messages", directory / "lock", directory / "bell")


class Clock:
    """Wall-clock time in ns that never repeats and never goes back within a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def now(self) -> int:
        with self._lock:
            self._last = max(time.time_ns(), self._last + 1)
            return self._last


#: One for all spools of the process, so that their messages sort in the order of their making.
clock = Clock()


def message_name(producer: str, counter: int, size: int) -> str:
    return f"{clock.now():020d}-{producer}-{counter:08d}-{size}"


def message_size(name: str) -> int:
    return int(name[name.rindex("-") + 1 :])


def list_messages(messages: Path) -> list[str]:
    """The names of all messages. Other files (a .DS_Store, say) were not put there by us."""
    with os.scandir(messages) as entries:
        return [entry.name for entry in entries if MESSAGE_NAME.fullmatch(entry.name)]


@contextmanager
def os_errors(doing: str, path: Path) -> Iterator[None]:
    """Turns what the operating system says into an error that tells what to do."""
    try:
        yield
    except OSError as error:
        text = f"cannot {doing} {path}: {error.strerror}"
        if error.errno in NO_ROOM:
            raise NoSpace(f"{text}. Free some space on that file system and try again.") from error
        raise TransportError(text) from error


def write_all(descriptor: int, body: bytes) -> None:
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_message(path: Path, size: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        body = file.read()
    if len(body) != size:
        # Handed out as it is: its checksum does not fit either, so that the receiver puts it away
        # as a dead letter, and the queue goes on.
        log.warning(
            "the message %s is damaged: it has %d bytes, its name says %d; check the disk",
            path,
            len(body),
            size,
        )
    return body


def ring(bell: Path) -> None:
    try:
        descriptor = os.open(bell, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"!")
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NOBODY_LISTENS:
            raise


class Disk:
    """Makes files and directories durable, or leaves that to the system if sync is False."""

    def __init__(self, sync: bool) -> None:
        self._sync = sync

    def sync_file(self, descriptor: int) -> None:
        if self._sync:
            os.fdatasync(descriptor)

    def sync_directory(self, path: Path) -> None:
        if self._sync:
            sync_directory(path)

    def make_directory(self, path: Path) -> None:
        """Makes the directory and what is missing above it."""
        if self._sync:
            make_directory(path)
        else:
            path.mkdir(parents=True, exist_ok=True)


# The reading end of a spool queue.

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
