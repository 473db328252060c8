"""Looking after workers that live: those that hang are killed, those that grew are drained.

Their logs are kept short.
"""

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from booksan.pulse import Pulses
from booksan.supervisor.config import HostConfig
from booksan.supervisor.figures import figures_of
from booksan.supervisor.logs import log, rotate
from booksan.supervisor.states import WorkerState
from booksan.supervisor.workers import Worker

#: Seconds between two looks at all workers.
LOOK = 5.0


class Watch:
    def __init__(
        self, config: HostConfig, pulses: Pulses, workers: Sequence[Worker], data_dir: Path
    ) -> None:
        self._config = config
        self._data_dir = data_dir
        self._pulses = pulses
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

    def _look_at(self, worker: Worker, now: float) -> None:
        silent = now - max(self._pulses.last(worker.slot), self._awake_since, worker.started)
        if silent > self._config.hang_timeout:
            log(worker.name, f"no sign of life for {silent:.0f} s, is killed, pid {worker.pid}")
            worker.hung = True
            worker.signal(signal.SIGKILL)
            return
        limit = self._config.memory_limit
        if limit and worker.figures and worker.figures.memory > limit:
            size = f"{worker.figures.memory / 1e6:.0f} MB, {limit / 1e6:.0f} allowed"
            log(worker.name, f"too large ({size}), is drained, pid {worker.pid}")
            worker.drain(now + self._config.drain_timeout)

    def _kill_undrained(self, now: float) -> None:
        for worker in self._workers:
            if worker.kill_at is not None and worker.kill_at <= now:
                log(worker.name, f"did not end in time, is killed, pid {worker.pid}")
                worker.kill_at = None
                worker.signal(signal.SIGKILL)
