"""Small helpers for files that must survive a crash."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from booksan_client.files import sync_directory as sync_directory


def write_atomically(path: Path, write: bytes | Callable[[BinaryIO], object]) -> None:
    """The whole file or nothing: a temporary beside it, synced, then renamed over it."""
    # Always the same name: what a kill left of it is written over the next time.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
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
