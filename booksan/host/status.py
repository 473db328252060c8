"""What host-status.json tells, the states and exit codes in it, and who holds the directory."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType

import msgspec

from booksan.errors import EXIT_CANNOT_START as EXIT_CANNOT_START
from booksan.errors import UsageError
from booksan_common.files import is_locked, try_lock, write_atomically

# The states of a host and its workers, and the exit codes with a meaning.


class HostState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    FAILED = "failed"
    STOPPED = "stopped"


class WorkerState(StrEnum):
    WAITING = "waiting"  # for its start or its next restart
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


#: A worker broke too often: the supervisor gave up.
EXIT_GAVE_UP = 70

#: Of a revival: the host is not dead at all.
EXIT_AT_WORK = 71

#: The data directory belongs to another supervisor, or workers of an earlier one still live.
EXIT_LOCKED = 75


# What host-status.json tells: the host and its workers as they are now.

STATUS_FILE = "host-status.json"


@dataclass(frozen=True)
class WorkerStatus:
    name: str
    pid: int | None
    state: WorkerState
    restarts: int
    #: When it came into this state, in seconds since 1970.
    since: float
    #: Bytes in memory and seconds of processor time, at the last look.
    memory: int | None = None
    cpu: float | None = None


@dataclass(frozen=True)
class HostStatus:
    pid: int
    state: HostState
    #: Of all workers together.
    restarts: int
    workers: tuple[WorkerStatus, ...]
    error: str | None = None
    #: The exit code of a host that has failed.
    code: int | None = None
    #: Who leads the hosts, and in which term, as far as this one knows.
    leader: str | None = None
    term: str | None = None
    #: Since its start all of its workers, the gateway among them, have been at work at once.
    ready: bool = False


def write_status(data_dir: Path, status: HostStatus) -> None:
    """Not synced: it is written again and again, and the supervisor must not wait for the disk."""
    write_json(data_dir / STATUS_FILE, status, lasting=False)


def read_status(data_dir: Path) -> HostStatus | None:
    """Read the last report; None when there is none that can be read.

    A host that was killed cannot say so: the report of a dead process stays as it was.
    """
    try:
        return parse_status((data_dir / STATUS_FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def parse_status(text: str) -> HostStatus | None:
    try:
        return msgspec.json.decode(text, type=HostStatus)
    except ValueError:
        return None


def write_json(path: Path, value: object, *, lasting: bool = True) -> None:
    """Replace the file at once: a reader sees the old text or the new one, never a part."""
    plain = msgspec.to_builtins(value, str_keys=True)
    write_atomically(path, (json.dumps(plain, indent=2) + "\n").encode(), lasting=lasting)


# One supervisor per data directory, and one generation of workers.
#
# Two locks. `host.lock` belongs to the supervisor alone: children close it, so that it is free the
# moment the supervisor is dead. `workers.lock` is shared over the fork with all workers: it is free
# when the last of them is dead. A killed process can take a while to die (it may sit in an fsync);
# a new supervisor that did not wait for it would run two generations at once.

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
    return is_locked(data_dir / WORKERS_LOCK)


def supervisor_pid(data_dir: Path) -> int | None:
    """The supervisor that has the directory, dead ones excluded: their locks are free."""
    lock = data_dir / HOST_LOCK
    if not is_locked(lock):
        return None
    text = _written_in(lock)
    return int(text) if text.isdecimal() and _has_open(int(text), lock) else None


def _written_in(lock: Path) -> str:
    with suppress(OSError):
        return lock.read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _has_open(pid: int, lock: Path) -> bool:
    """Between its lock and its pid in the file, the pid is that of an earlier supervisor, which by
    now may be anybody's."""
    if not Path("/proc/self/fd").is_dir():
        return True
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if file.samefile(lock):
                    return True
    return False


def _holder(data_dir: Path) -> str:
    pid = _written_in(data_dir / HOST_LOCK)
    return f" (process {pid})" if pid.isdigit() else ""


def _take(path: Path, timeout: float) -> int | None:
    lock = try_lock(path, 0o644)
    if lock is None and timeout > 0:
        with suppress(TimeoutError), _alarm(timeout):
            lock = try_lock(path, 0o644, wait=True)
    return lock


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
