"""The embedded transport: queues as directories on the local disk.

A message is written under a temporary name, synced, and renamed into its queue, and the queue's
directory is synced, before it counts as confirmed. No server; safe under kill -9; seen with ls.
"""

import errno
import os
import secrets
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from booksan.errors import TransportError
from booksan.transport.base import Consumer, Depth, Outgoing, Transport, check_queue_name
from booksan.transport.spool_consumer import (
    Disk,
    QueueFiles,
    SpoolConsumer,
    list_messages,
    message_name,
    message_size,
    os_errors,
    queue_files,
    ring,
    write_all,
)
from booksan_common.files import take_lock

#: Messages written before the first of them is synced. The disk takes them together, which is
#: faster; each holds an open file meanwhile, and many threads may publish at once.
GROUP = 16


class Spool(Transport):
    """With sync=False a confirmed message survives kill -9 but not a power failure."""

    def __init__(self, root: Path, *, sync: bool = True) -> None:
        self._root = root.absolute()
        self._disk = Disk(sync)
        self._opening = threading.Lock()
        self._producer: Producer | None = None
        self._ready: dict[str, QueueFiles] = {}
        self._closed = False
        with os_errors("open the spool", root):
            self._disk.make_directory(self._root / "queues")
            self._disk.make_directory(self._root / "tmp")
            remove_leftovers(self._root / "tmp")

    def publish(self, messages: Sequence[Outgoing]) -> None:
        queues = {queue: self._make_queue(queue) for queue in {one.queue for one in messages}}
        producer = self._get_producer()
        try:
            for start in range(0, len(messages), GROUP):
                group = messages[start : start + GROUP]
                producer.put([(queues[one.queue].messages, one.body) for one in group])
            self._confirm(queues.values())
        except BaseException:
            # A queue's directory may have been removed; it is made anew the next time.
            for queue in queues:
                self._ready.pop(queue, None)
            raise

    def consume(self, queue: str) -> Consumer:
        return SpoolConsumer(self._make_queue(queue))

    def depth(self, queue: str) -> Depth:
        check_queue_name(queue)
        messages = queue_files(self._root, queue).messages
        with os_errors("list", messages), suppress(FileNotFoundError):
            names = list_messages(messages)
            return Depth(len(names), sum(map(message_size, names)))
        return Depth(0, 0)

    def close(self) -> None:
        with self._opening:
            self._closed = True
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _make_queue(self, queue: str) -> QueueFiles:
        """Makes the queue, or makes sure that it is durable if another process just made it."""
        check_queue_name(queue)
        if self._closed:
            raise TransportError(f"the spool {self._root} is closed")
        ready = self._ready.get(queue)
        if ready is not None:
            return ready
        files = queue_files(self._root, queue)
        with os_errors("make the queue", files.directory):
            files.messages.mkdir(parents=True, exist_ok=True)
            for parent in (files.directory, files.directory.parent, self._root):
                self._disk.sync_directory(parent)
        self._ready[queue] = files
        return files

    def _get_producer(self) -> "Producer":
        """Made on first use, so that one who only reads writes nothing, also on a full disk."""
        with self._opening:
            if self._closed:
                raise TransportError(f"the spool {self._root} is closed")
            if self._producer is None:
                self._producer = Producer(self._root / "tmp", self._disk)
            return self._producer

    def _confirm(self, queues: Iterable[QueueFiles]) -> None:
        for files in queues:
            with os_errors("sync", files.messages):
                self._disk.sync_directory(files.messages)
            with os_errors("ring", files.bell):
                ring(files.bell)


class Temporary(NamedTuple):
    descriptor: int
    path: Path
    target: Path


class Producer:
    """Writes messages by way of a directory of its own, which others leave alone as it lives."""

    def __init__(self, tmp: Path, disk: Disk) -> None:
        self._disk = disk
        self._counter = count()
        with os_errors("make a directory in", tmp):
            self._directory, self._lock = _make_own_directory(tmp)

    def put(self, messages: Sequence[tuple[Path, bytes]]) -> None:
        """Moves bodies into directories of messages, which are not synced yet."""
        with os_errors("write in", self._directory), ExitStack() as leftovers:
            temporaries = [self._write(to, body, leftovers) for to, body in messages]
            for temporary in temporaries:
                with os_errors("sync", temporary.path):
                    self._disk.sync_file(temporary.descriptor)
            # Not one by one as other files are: one sync of the directory is enough for them all.
            for temporary in temporaries:
                with os_errors("publish", temporary.target):
                    temporary.path.rename(temporary.target)

    def close(self) -> None:
        try:
            with os_errors("remove", self._directory):
                _remove_directory(self._directory)
        finally:
            os.close(self._lock)

    def _write(self, to: Path, body: bytes, leftovers: ExitStack) -> Temporary:
        name = message_name(self._directory.name, next(self._counter), len(body))
        path = self._directory / name
        with os_errors("write", path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
            leftovers.callback(path.unlink, missing_ok=True)
            leftovers.callback(os.close, descriptor)
            write_all(descriptor, body)
        return Temporary(descriptor, path, to / name)


def remove_leftovers(tmp: Path) -> None:
    """Removes the directories of producers that died: their locks can be had."""
    for directory in tmp.iterdir():
        # Its owner or another process may be removing it too.
        with suppress(FileNotFoundError, BlockingIOError):
            lock = take_lock(directory / "lock")
            if lock is not None:
                try:
                    _remove_directory(directory)
                finally:
                    os.close(lock)


def _make_own_directory(tmp: Path) -> tuple[Path, int]:
    while True:
        directory = tmp / secrets.token_hex(8)
        directory.mkdir()
        with suppress(BlockingIOError):
            lock = take_lock(directory / "lock")
            if lock is not None:
                return directory, lock
        # Somebody took the directory for a leftover before it was locked: take another.


def _remove_directory(directory: Path) -> None:
    """The lock goes last: a directory without one is empty or about to be used."""
    lock = directory / "lock"
    for file in directory.iterdir():
        if file != lock:
            file.unlink(missing_ok=True)
    lock.unlink(missing_ok=True)
    try:
        directory.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
            raise
