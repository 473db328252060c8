"""One supervisor per data directory, and one generation of workers.

Two locks. `host.lock` belongs to the supervisor alone: children close it, so that it is free the
moment the supervisor is dead. `workers.lock` is shared over the fork with all workers: it is free
when the last of them is dead. A killed process can take a while to die (it may sit in an fsync);
a new supervisor that did not wait for it would run two generations at once.
"""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from booksan.errors import UsageError

HOST_LOCK = "host.lock"
WORKERS_LOCK = "workers.lock"

#: Seconds that workers of a dead supervisor are given to be gone.
GENERATION_TIMEOUT = 10.0


@dataclass(frozen=True)
class HostLocks:
    """Open file descriptors, held until the process ends."""

    host: int
    workers: int


def take_locks(data_dir: Path, timeout: float) -> HostLocks:
    """Take both locks, or raise UsageError when somebody else has them.

    Needs the main thread: the wait ends by an alarm.
    """
    host = _take(data_dir / HOST_LOCK, timeout)
    if host is None:
        raise UsageError(
            f"{data_dir} is in use by another supervisor{_holder(data_dir)}. "
            "Stop it, or choose another directory."
        )
    os.ftruncate(host, 0)
    # Only for the message above: a full disk must not keep a host from starting.
    with suppress(OSError):
        os.write(host, f"{os.getpid()}\n".encode())
    workers = _take(data_dir / WORKERS_LOCK, max(timeout, GENERATION_TIMEOUT))
    if workers is None:
        os.close(host)
        raise UsageError(
            f"Workers of an earlier supervisor in {data_dir} have not ended yet. "
            "Wait a moment and start again."
        )
    return HostLocks(host, workers)


def workers_alive(data_dir: Path) -> bool:
    """Say whether any worker, of whatever supervisor, still lives in the directory."""
    fd = _take(data_dir / WORKERS_LOCK, 0)
    if fd is None:
        return True
    os.close(fd)
    return False


def supervisor_pid(data_dir: Path) -> int | None:
    """The supervisor that has the directory, dead ones excluded: their locks are free."""
    try:
        descriptor = os.open(data_dir / HOST_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # Shared: two who look at once do not see each other.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 32).decode(errors="replace").strip()
        return int(text) if text.isdecimal() and _has_open(int(text), descriptor) else None
    finally:
        os.close(descriptor)
    return None


def _has_open(pid: int, descriptor: int) -> bool:
    """Between its lock and its pid in the file, the pid is that of an earlier supervisor, which by
    now may be anybody's."""
    if not Path("/proc/self/fd").is_dir():
        return True
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(file.stat(), os.fstat(descriptor)):
                    return True
    return False


def _holder(data_dir: Path) -> str:
    with suppress(OSError):
        pid = (data_dir / HOST_LOCK).read_text(encoding="utf-8").strip()
        return f" (process {pid})" if pid.isdigit() else ""
    return ""


def _take(path: Path, timeout: float) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except BlockingIOError:
        pass
    try:
        if timeout > 0:
            with _alarm(timeout):
                fcntl.flock(fd, fcntl.LOCK_EX)
            return fd
    except TimeoutError:
        pass
    os.close(fd)
    return None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(_signum: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
