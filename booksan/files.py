"""Small helpers for files that must survive a crash."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from booksan_client.files import sync_directory as sync_directory


def write_atomically(path: Path, write: bytes | Callable[[BinaryIO], object]) -> None:
    """The whole file or nothing: a temporary beside it, synced, then renamed over it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
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
