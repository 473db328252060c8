"""Making names in directories durable."""

import os
from pathlib import Path


def sync_directory(path: Path) -> None:
    """A new name in a directory is durable only after this."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
