"""What the supervisor knows of each of its workers: state, cost, and whether it hangs."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from booksan.heartbeat import Heartbeats
from booksan.host import logs
from booksan.host.config import HostConfig, RestartHistory, WorkerSpec
from booksan.host.logs import rotate, tell
from booksan.host.status import WorkerState, WorkerStatus
from booksan.supervisor.child import Nursery, become_worker
from booksan.supervisor.forkserver import ForkServer

# What a worker costs: memory and processor time, as the system tells them.


@dataclass(frozen=True)
class Figures:
    #: Bytes in memory, shared pages included.
    memory: int
    #: Seconds of processor time since its start.
    cpu: float


def figures_of(pid: int) -> Figures | None:
    """None when the process has just ended."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return Figures(process.memory_info().rss, round(times.user + times.system, 2))
    except psutil.Error:
        return None


# What the supervisor knows of each of its workers.

#: Deaths by these say nothing about the worker: somebody else ended it.
OUTSIDE_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass
class ManagedWorker:
    spec: WorkerSpec
    history: RestartHistory
    #: Monotonic time of its next start, while it waits; once asked for, when it is forked directly.
    due: float
    #: Its slot among the heartbeats.
    slot: int = 0
    state: WorkerState = WorkerState.WAITING
    #: The fork server was asked for it and has not answered yet.
    asked: bool = False
    pid: int | None = None
    starts: int = 0
    #: Monotonic time of its last start.
    started: float = 0.0
    #: Where in its log the output of this process begins.
    log_offset: int = 0
    figures: Figures | None = None
    #: Monotonic time at which it is killed if it has not ended, while it drains alone.
    kill_at: float | None = None
    #: It was killed because it gave no sign of life.
    hung: bool = False
    #: Wall-clock time of the last change of state.
    since: float = field(default_factory=time.time)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def restarts(self) -> int:
        return max(0, self.starts - 1)

    def enter(self, state: WorkerState) -> None:
        self.state = state
        self.since = time.time()

    def start(self, nursery: Nursery, server: ForkServer) -> None:
        """Ask the fork server for it, or fork it. Raises OSError when there is no room."""
        self.started = time.monotonic()
        self.log_offset = logs.size(logs.log_path(nursery.data_dir, self.name))
        nursery.heartbeats.note_end(self.slot, hung=self.hung)
        self.figures, self.kill_at, self.hung = None, None, False
        patience = server.ask(self.slot)
        if patience is None:
            self.fork(nursery)
        else:
            self.asked, self.due = True, self.started + patience

    def fork(self, nursery: Nursery) -> None:
        """Without a fork server. Raises OSError when the system has no room for one more."""
        self.asked = False
        self.started = time.monotonic()
        mask = nursery.wakeup.block()
        try:
            pid = os.fork()
            if pid == 0:
                become_worker(nursery, self.spec, self.slot, mask)
        finally:
            nursery.wakeup.unblock(mask)
        self.adopt(pid)

    def adopt(self, pid: int) -> None:
        """This child is the worker."""
        self.asked = False
        self.pid = pid
        self.starts += 1
        self.enter(WorkerState.RUNNING)

    def signal(self, signum: signal.Signals) -> None:
        """Send a signal; the pid is ours until it is reaped."""
        if self.pid is not None:
            os.kill(self.pid, signum)

    def drain(self, kill_at: float | None = None) -> None:
        """Ask it to end; `kill_at`: when it is killed if it has not, while it drains alone."""
        self.kill_at = kill_at
        self.enter(WorkerState.DRAINING)
        self.signal(signal.SIGTERM)

    def ended(self, state: WorkerState) -> None:
        self.pid = None
        self.figures = None
        self.enter(state)

    def last_words(self, data_dir: Path) -> str:
        return logs.last_line(logs.log_path(data_dir, self.name), self.log_offset)

    def status(self) -> WorkerStatus:
        figures = self.figures
        return WorkerStatus(
            self.name,
            self.pid,
            self.state,
            self.restarts,
            round(self.since, 3),
            figures.memory if figures else None,
            figures.cpu if figures else None,
        )


def describe_exit(code: int) -> str:
    """Say in words how a process ended; a negative code is a signal."""
    if code >= 0:
        return f"ended by itself with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


# Looking after workers that live: those that hang are killed, those that grew are drained.
#
# Their logs are kept short.

#: Seconds between two looks at all workers.
LOOK = 5.0


class WorkerWatch:
    def __init__(
        self,
        config: HostConfig,
        heartbeats: Heartbeats,
        workers: Sequence[ManagedWorker],
        data_dir: Path,
    ) -> None:
        self._config = config
        self._data_dir = data_dir
        self._pulses = heartbeats
        self._workers = workers
        self._look_every = min(LOOK, config.hang_timeout / 4) or LOOK
        self._looked = time.monotonic()
        #: Silence before this moment is the supervisor's own: it stood still itself.
        self._awake_since = self._looked

    @property
    def due(self) -> float:
        """When to look again, or to kill one that does not drain; monotonic."""
        kills = [worker.kill_at for worker in self._workers if worker.kill_at is not None]
        return min([self._looked + self._look_every, *kills])

    def look(self) -> None:
        now = time.monotonic()
        self._kill_undrained(now)
        if now < self._looked + self._look_every:
            return
        if now - self._looked > 2 * self._look_every:
            self._awake_since = now
        self._looked = now
        rotate(self._data_dir)
        for worker in self._workers:
            if worker.pid is not None:
                worker.figures = figures_of(worker.pid)
            if worker.state is WorkerState.RUNNING:
                self._look_at(worker, now)

    def _look_at(self, worker: ManagedWorker, now: float) -> None:
        silent = now - max(self._pulses.last(worker.slot), self._awake_since, worker.started)
        if silent > self._config.hang_timeout:
            tell(worker.name, f"no sign of life for {silent:.0f} s, is killed, pid {worker.pid}")
            worker.hung = True
            worker.signal(signal.SIGKILL)
            return
        limit = self._config.memory_limit
        if limit and worker.figures and worker.figures.memory > limit:
            size = f"{worker.figures.memory / 1e6:.0f} MB, {limit / 1e6:.0f} allowed"
            tell(worker.name, f"too large ({size}), is drained, pid {worker.pid}")
            worker.drain(now + self._config.drain_timeout)

    def _kill_undrained(self, now: float) -> None:
        for worker in self._workers:
            if worker.kill_at is not None and worker.kill_at <= now:
                tell(worker.name, f"did not end in time, is killed, pid {worker.pid}")
                worker.kill_at = None
                worker.signal(signal.SIGKILL)
