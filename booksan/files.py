"""Small helpers for files that must survive a crash."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from booksan.errors import NoSpace
from booksan_client.files import sync_directory as sync_directory

#: What a full disk says, and a user's share of it that is used up.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def room_in(directory: Path) -> Iterator[None]:
    """A full disk is told with its place: a write that fails does not know it."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise NoSpace(
            f"no space left where {directory} is; make room, then type the same command again"
        ) from error


def write_atomically(path: Path, write: bytes | Callable[[BinaryIO], object]) -> None:
    """The whole file or nothing: a temporary beside it, synced, then renamed over it."""
    # Always the same name: what a kill left of it goes first. It is made anew, so that a link that
    # somebody laid there leads nowhere.
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:
            if callable(write):
                write(file)
            else:
                file.write(write)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
