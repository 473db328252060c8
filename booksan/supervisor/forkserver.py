"""A process that has loaded everything and computed nothing: workers are forked from it.

It is a child of the supervisor, on Linux only. A worker is asked for by its slot. The server forks
a process between, which forks the worker and ends; so the worker becomes a child of the supervisor,
which adopts orphans while it waits for one. The worker then ties itself to the supervisor, tells
its pid on the socket, and begins.

Whatever goes wrong here, the supervisor forks its workers itself, which takes them longer.
"""

import gc
import importlib
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from booksan.host.config import HostConfig
from booksan.host.logs import log, log_path
from booksan.supervisor.child import Nursery, become_worker, leave_supervisor, prctl

#: Of its log.
NAME = "fork-server"
#: Seconds for it to load everything, on a busy machine, and for one more worker after that.
LOAD_TIMEOUT = 20.0
START_TIMEOUT = 5.0
#: Seconds from the end of one server to the next: first and longest. One that cannot live must not
#: cost anything.
PAUSES = (5.0, 3600.0)
#: Threads that polars starts when it is imported; it knows how to go on without them in a child.
#: Any other may hold a lock at the fork that nobody would ever release.
HARMLESS_THREADS = frozenset({"jemalloc_bg_thd", "polars-ooc-clea"})

_PR_SET_CHILD_SUBREAPER = 36
_REPORT_BYTES = 64


class Report(NamedTuple):
    """A worker lives; without a pid: it could not be forked."""

    slot: int
    pid: int


class ForkServer:
    """The supervisor's view of it."""

    def __init__(self, nursery: Nursery, config: HostConfig) -> None:
        self._nursery = nursery
        self._config = config
        self._socket: socket.socket | None = None
        self._pid: int | None = None
        self._pause = PAUSES[0]
        self._next = 0.0
        #: It has forked a worker.
        self._proved = False
        self._adopts = False

    @property
    def fds(self) -> list[int]:
        return [] if self._socket is None else [self._socket.fileno()]

    @property
    def due(self) -> float | None:
        """When to start it; monotonic. Not before the last one is gone."""
        there = self._socket is not None or self._pid is not None
        return self._next if not there and sys.platform == "linux" else None

    def start(self) -> None:
        """Nothing waits for it. Where it cannot be, `ask` says so."""
        if self.due is None or self.due > time.monotonic():
            return
        if self._proved:
            self._pause = PAUSES[0]
        self._next, self._pause = time.monotonic() + self._pause, min(2 * self._pause, PAUSES[1])
        self._proved = False
        try:
            self._fork()
        except OSError as error:
            log("host", f"cannot start the fork server: {error}")

    def _fork(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mask = self._nursery.wakeup.block()
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _be_server(self._nursery, self._config, theirs, mask)
        except OSError:
            self._pid = None
            ours.close()
            raise
        finally:
            self._nursery.wakeup.unblock(mask)
            theirs.close()
        ours.setblocking(False)
        self._socket = ours

    def ask(self, slot: int) -> float | None:
        """Ask for a worker. Seconds within which it reports; None: there will be none."""
        if self._socket is None:
            return None
        try:
            self._adopt(True)
            self._socket.send(b"%d" % slot)
        except OSError:
            return None
        return START_TIMEOUT if self._proved else LOAD_TIMEOUT

    def reports(self) -> list[Report]:
        """What came since the last time. At the end of the server, nothing comes after these."""
        found: list[Report] = []
        while self._socket is not None:
            try:
                words = self._socket.recv(_REPORT_BYTES)
            except BlockingIOError:
                break
            except ConnectionResetError:
                # It has ended with a request unread; what was told before is still to be had.
                continue
            if not words:
                self._forget()
                break
            found.append(Report(*map(int, words.split())))
        self._proved = self._proved or any(report.pid for report in found)
        return found

    def all_reported(self) -> None:
        """Nobody is waited for, so orphans are somebody else's again: a host that this one has
        brought back is no child of it."""
        self._adopt(False)

    def end(self) -> list[Report]:
        """No worker begins any more but those whose reports are returned."""
        if self._socket is None:
            return []
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
        found = self.reports()
        self._forget()
        return found

    def reaped(self, pid: int) -> bool:
        """A child of the supervisor has ended; True if it was this one."""
        if pid != self._pid:
            return False
        self._pid = None
        return True

    def wait(self) -> None:
        """Until one that was killed is gone."""
        if self._pid is not None:
            os.waitpid(self._pid, 0)
            self._pid = None

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)

    def _adopt(self, wanted: bool) -> None:
        if wanted != self._adopts:
            prctl(_PR_SET_CHILD_SUBREAPER, wanted)
            self._adopts = wanted


# In the server.


def _be_server(
    nursery: Nursery, config: HostConfig, requests: socket.socket, mask: set[int]
) -> NoReturn:
    code = 1
    try:
        leave_supervisor(nursery, mask, log_path(nursery.data_dir, NAME), requests.fileno())
        gc.disable()
        _load(config)
        threads = _threads() - HARMLESS_THREADS
        if threads:
            print(f"a fork would lose threads: {', '.join(sorted(threads))}", file=sys.stderr)
        else:
            gc.collect()
            # What is loaded is never looked at again, so that its pages stay shared.
            gc.freeze()
            _serve(nursery, config, requests, mask)
        code = 0
    except OSError:
        traceback.print_exc()
    finally:
        os._exit(code)


def _load(config: HostConfig) -> None:
    """The modules of all entries, and what each says that its first work needs."""
    for entry in _entries(config):
        # Whoever is to run it finds out the same, and tells.
        with suppress(Exception, SystemExit):
            module = importlib.import_module(entry.partition(":")[0])
            getattr(module, "preload", _nothing)()


def _entries(config: HostConfig) -> Iterable[str]:
    return sorted({worker.entry or config.entry for worker in config.workers})


def _nothing() -> None:
    """For entries whose modules are all that they need."""


def _threads() -> set[str]:
    """The names of all threads of this process but this one."""
    tasks = (task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid()))
    return {(task / "comm").read_text().strip() for task in tasks}


def _serve(nursery: Nursery, config: HostConfig, requests: socket.socket, mask: set[int]) -> None:
    while request := requests.recv(_REPORT_BYTES):
        slot = int(request)
        if not _fork_between(nursery, config, requests, slot, mask):
            requests.send(b"%d 0" % slot)


def _fork_between(
    nursery: Nursery, config: HostConfig, reports: socket.socket, slot: int, mask: set[int]
) -> bool:
    try:
        pid = _fork()
    except OSError:
        return False
    if pid == 0:
        _be_between(nursery, config, reports, slot, mask)
    return os.waitpid(pid, 0)[1] == 0


def _fork() -> int:
    with warnings.catch_warnings():
        # Newer Pythons warn of the threads, which have been looked at.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _be_between(
    nursery: Nursery, config: HostConfig, reports: socket.socket, slot: int, mask: set[int]
) -> NoReturn:
    code = 1
    try:
        own = os.getpid()
        if os.fork() == 0:
            _wait_for_adoption(own)
            nursery.parent_death.watch_parent()
            reports.send(b"%d %d" % (slot, os.getpid()))
            gc.enable()
            become_worker(nursery, config.workers[slot], slot, mask)
        code = 0
    except OSError:
        # No room for a process, or nobody waits for this worker any more.
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait_for_adoption(before: int) -> None:
    """Until the process that forked this one has ended, which is at once."""
    deadline = time.monotonic() + START_TIMEOUT
    while os.getppid() == before and time.monotonic() < deadline:
        time.sleep(0.0002)
