"""What the supervisor knows of each of its workers."""

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from booksan.supervisor import logs
from booksan.supervisor.child import Nursery, become_worker
from booksan.supervisor.config import WorkerSpec
from booksan.supervisor.figures import Figures
from booksan.supervisor.policy import RestartHistory
from booksan.supervisor.states import WorkerState
from booksan.supervisor.status import WorkerStatus

#: Deaths by these say nothing about the worker: somebody else ended it.
OUTSIDE_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass
class Worker:
    spec: WorkerSpec
    history: RestartHistory
    #: Monotonic time of its next start, while it waits.
    due: float
    #: Its place among the pulses.
    slot: int = 0
    state: WorkerState = WorkerState.WAITING
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

    def start(self, nursery: Nursery) -> None:
        """Fork the worker's process. Raises OSError when the system has no room for one more."""
        self.started = time.monotonic()
        self.starts += 1
        self.log_offset = logs.size(logs.log_path(nursery.data_dir, self.name))
        nursery.pulses.note_end(self.slot, hung=self.hung)
        self.figures, self.kill_at, self.hung = None, None, False
        mask = nursery.wakeup.block()
        try:
            pid = os.fork()
            if pid == 0:
                become_worker(nursery, self.spec, self.slot, mask)
        finally:
            nursery.wakeup.unblock(mask)
        self.pid = pid
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
