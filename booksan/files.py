"""Small helpers for files that must survive a crash."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from booksan_client.files import sync_directory as sync_directory


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
