"""What a new process does before it is a worker; it dies with its supervisor."""

import ctypes
import faulthandler
import importlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol

from booksan import heartbeat
from booksan.events import write
from booksan.host.config import WorkerSpec
from booksan.host.logs import log_path
from booksan.host.status import EXIT_CANNOT_START
from booksan.news import News, take

# A worker dies with its supervisor, however that one dies.

_PR_SET_PDEATHSIG = 1


def prctl(option: int, value: int) -> None:
    """Linux alone: what the kernel does for this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


class ParentDeath(Protocol):
    """Made in the supervisor, tied in each child."""

    #: What a child must keep open.
    child_fds: frozenset[int]

    def watch_parent(self) -> None:
        """Tie this process to the supervisor. Called in a child, right after the fork."""


class DeathSignal:
    """Linux: the kernel kills the child when its parent ends."""

    child_fds: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self._supervisor = os.getpid()

    def watch_parent(self) -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The supervisor may have died before the call: then no signal will come.
        if os.getppid() != self._supervisor:
            os._exit(1)


class DeathPipe:
    """Elsewhere: a pipe that ends when the supervisor does, and a thread that waits for it."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        self.child_fds: frozenset[int] = frozenset({self._read_fd})

    def watch_parent(self) -> None:
        os.close(self._write_fd)
        threading.Thread(target=self._watch, name="parent_death", daemon=True).start()

    def _watch(self) -> None:
        os.read(self._read_fd, 1)
        os.kill(os.getpid(), signal.SIGKILL)


def make_parent_death() -> ParentDeath:
    return DeathSignal() if sys.platform == "linux" else DeathPipe()


# Signals as bytes in a pipe: a handler only wakes the loop, and the loop decides.

#: Each of them asks the host to drain.
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

#: A terminal sends these to all processes of the tree. The supervisor alone acts on them.
_TERMINAL_SIGNALS = frozenset({signal.SIGINT, signal.SIGHUP})


class Wakeup:
    """Catches SIGCHLD and the stop signals from the moment it is made."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._caught = {signal.SIGCHLD, *filter(_wanted, STOP_SIGNALS)}
        for signum in self._caught:
            signal.signal(signum, _only_wake)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._caught)

    def signals(self) -> frozenset[int]:
        """Take the signals that came since the last call."""
        try:
            return frozenset(os.read(self.fd, 65536))
        except BlockingIOError:
            return frozenset()

    def block(self) -> set[int]:
        """Hold signals back. Until a child has its own handlers, it would answer for its parent."""
        return set(signal.pthread_sigmask(signal.SIG_BLOCK, self._caught))

    def unblock(self, mask: set[int]) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def forget_in_child(self, mask: set[int]) -> None:
        """Give a new child the handlers of a new process."""
        signal.set_wakeup_fd(-1)
        for signum in self._caught:
            signal.signal(signum, signal.SIG_DFL)
        for signum in _TERMINAL_SIGNALS:
            signal.signal(signum, signal.SIG_IGN)
        self.unblock(mask)


def _wanted(signum: signal.Signals) -> bool:
    # nohup and background jobs of a shell ask for these to be ignored.
    return signum not in _TERMINAL_SIGNALS or signal.getsignal(signum) != signal.SIG_IGN


def _only_wake(_signum: int, _frame: FrameType | None) -> None:
    """Python writes the signal's number to the pipe; there is no more to do."""


# What a new process does before it is a worker.

Entry = Callable[[Path, str, int], int]


@dataclass(frozen=True)
class Nursery:
    """All that a child takes over from its supervisor."""

    data_dir: Path
    entry: str
    wakeup: Wakeup
    parent_death: ParentDeath
    #: The lock that is free again when the last worker is gone.
    workers_lock: int
    #: Where the workers give their signs of life.
    heartbeats: heartbeat.Heartbeats
    #: What they tell of themselves and of runs.
    news: News


def become_worker(nursery: Nursery, spec: WorkerSpec, slot: int, mask: set[int]) -> NoReturn:
    """Be the worker, and never come back: the code above belongs to the supervisor."""
    code = 1
    try:
        leave_supervisor(nursery, mask, log_path(nursery.data_dir, spec.name))
        heartbeat.take(nursery.heartbeats, slot)
        take(nursery.news, spec.name)
        code = _run(nursery, spec)
    except SystemExit as stop:
        code = _exit_code(stop)
    finally:
        try:
            _flush_output(spec.name)
        finally:
            os._exit(code)


def leave_supervisor(nursery: Nursery, mask: set[int], log: Path, *more_fds: int) -> None:
    """Signals, output and files of a new process; `more_fds`: what else it keeps open."""
    nursery.parent_death.watch_parent()
    nursery.wakeup.forget_in_child(mask)
    _redirect_output(log)
    kept = {nursery.workers_lock, nursery.news.write_fd, *nursery.parent_death.child_fds}
    _close_all_but(kept.union(more_fds))
    faulthandler.enable()


def _run(nursery: Nursery, spec: WorkerSpec) -> int:
    try:
        entry = _find(spec.entry or nursery.entry)
    except (ImportError, AttributeError):
        traceback.print_exc()
        return EXIT_CANNOT_START
    return int(entry(nursery.data_dir, spec.stage, spec.shard))


def _find(entry: str) -> Entry:
    module, _, function = entry.partition(":")
    found: Entry = getattr(importlib.import_module(module), function)
    return found


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1


def _flush_output(worker: str) -> None:
    failure = sys.exc_info()[1]
    if failure is not None:
        trace = "".join(traceback.format_exception(failure))
        write("died of an error", worker=worker, trace=trace)
    sys.stdout.flush()
    sys.stderr.flush()


def _redirect_output(log: Path) -> None:
    """Input from nowhere, output to the log, so that nothing reaches a user's terminal."""
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        # A full disk: the worker knows how to wait for room, so it starts without a log.
        output = nothing
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = _text(1), _text(2)


def _text(fd: int) -> io.TextIOWrapper:
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def _close_all_but(kept: set[int]) -> None:
    """Close what the supervisor had open: its lock, its pipes, and all that it grows later."""
    start = 3
    for fd in sorted(kept):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, max(start, os.sysconf("SC_OPEN_MAX")))
