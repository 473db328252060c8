"""Files that are whole or not there, and names in directories that last."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def sync_directory(path: Path) -> None:
    """A new name in a directory is durable only after this."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """The whole file or nothing: a temporary beside it, synced, then renamed over it."""
    # Always the same name: what a kill left of it is written over the next time.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_private(path: Path, data: bytes) -> None:
    """A file that nobody else may read, durable and whole."""
    with replacing(path, 0o600) as file:
        file.write(data)


def existing(path: Path) -> Path:
    """The path, or the nearest directory above it that is there."""
    place = path.absolute()
    while not os.path.lexists(place):
        place = place.parent
    return place


def check_directory(path: Path, refuse: Callable[[str], Exception]) -> None:
    """Refuses a place where answers could not be written, before hours of work are spent."""
    place = existing(path)
    if not place.is_dir():
        raise refuse(f"{path}: {place} is not a directory; name another one with --out")
    if not os.access(place, os.W_OK | os.X_OK):
        raise refuse(f"{path}: {place} is not writable; name another one with --out")


def take_lock(path: Path) -> int | None:
    """The lock in a directory, BlockingIOError if another has it; None if it went meanwhile."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink:
            return lock
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None
