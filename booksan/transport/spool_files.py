"""The spool on disk: its layout, its names, and what both ends of a queue do with files.

root/queues/<queue>/messages/   one file per message, whole from the moment it is here
root/queues/<queue>/lock        held by the consumer
root/queues/<queue>/bell        a FIFO: the consumer waits on it, producers ring it
root/tmp/<producer>/lock        held by the producer
root/tmp/<producer>/<message>   a message that is being written
"""

import errno
import fcntl
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from booksan.errors import NoSpace, TransportError

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
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(f"{text}. Free some space on that file system and try again.") from error
        raise TransportError(text) from error


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed or its process dies; None if taken."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


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
        if not self._sync:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make_directory(self, path: Path) -> None:
        """Makes the directory and what is missing above it."""
        missing = [part for part in (path, *path.parents) if not part.exists()]
        for part in reversed(missing):
            part.mkdir(exist_ok=True)
            self.sync_directory(part.parent)
