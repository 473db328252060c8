"""Where hosts and clusters are kept, and files for their owner's eyes only."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from booksan.errors import UsageError
from booksan.files import sync_directory
from booksan.local.workspace import state_home

_LOCK = "cluster.lock"


def hosts_directory(topology: str) -> Path:
    """The hosts of a topology that were started one by one, with what they share."""
    return state_home() / "hosts" / topology


def clusters_directory() -> Path:
    return state_home() / "clusters"


def make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be made: {error.strerror}; name another one with --data-dir"
        ) from None


def write_private(path: Path, content: bytes) -> None:
    """The whole file or nothing, and for its owner only from the first moment."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


@contextlib.contextmanager
def locked(directory: Path, *, wait: bool = False) -> Iterator[None]:
    """One command at a time changes a cluster; `wait` for the other one instead of giving up."""
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise UsageError(
            f"another booksan is starting or stopping the cluster in {directory}; wait for it"
        ) from None
    else:
        yield
    finally:
        os.close(descriptor)
