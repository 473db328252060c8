"""Files that are whole or not there, and names in directories that last."""

import fcntl
import os
import re
import secrets
import stat
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


#: Names of files that are being written; nobody can guess one beforehand.
_TEMPORARY = re.compile(r"\.booksan-[0-9a-f]{32}\.tmp")
#: Bits of a directory's mode that let others put files into it.
_OTHERS_MAY_WRITE = 0o022


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """The whole file or nothing: a temporary beside it, synced, then renamed over it.

    Its name is new: two writers never share one, and no link that waits there is followed.
    """
    temporary = path.with_name(f".booksan-{secrets.token_hex(16)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def is_temporary(name: str) -> bool:
    return _TEMPORARY.fullmatch(name) is not None


def sweep(directory: Path) -> None:
    """Removes what killed writers left; for whoever has the directory's lock."""
    for path in directory.iterdir():
        if is_temporary(path.name):
            path.unlink(missing_ok=True)


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


def make_private(path: Path, refuse: Callable[[str], Exception]) -> None:
    """A directory in which only this user can put files; an existing one is made so, or refused."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_private(path, refuse)


def check_private(path: Path, refuse: Callable[[str], Exception]) -> None:
    found = path.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise refuse(f"{path} belongs to another user, who could change what is kept there")
    if found.st_mode & _OTHERS_MAY_WRITE:
        if found.st_uid != os.geteuid():
            raise refuse(f"{path} can be written by others; take that right away (chmod go-w)")
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS_MAY_WRITE)


def take_lock(path: Path, mode: int = 0o600) -> int | None:
    """The lock in a directory, BlockingIOError if another has it; None if it went meanwhile."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
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
