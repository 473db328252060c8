"""The supervisor's one loop: wait, reap, restart what is due.

Signal handlers only wake it. It sleeps until a signal, the end of its parent or the next due time.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from booksan.errors import StateError, UsageError
from booksan.host.config import HostConfig, RestartHistory
from booksan.host.logs import has_terminal, log, say, tell
from booksan.host.status import (
    EXIT_CANNOT_START,
    EXIT_GAVE_UP,
    HostState,
    HostStatus,
    WorkerState,
    write_status,
)
from booksan.membership.liveness import Heartbeat
from booksan.membership.peers import Changes, Leading, Membership
from booksan.supervisor.announcer import Announcer
from booksan.supervisor.child import STOP_SIGNALS, Nursery
from booksan.supervisor.forkserver import ForkServer, Report
from booksan.supervisor.workers import OUTSIDE_SIGNALS, ManagedWorker, WorkerWatch, describe_exit

#: Seconds until a report that could not be written is tried again.
_STATUS_RETRY = 1.0


class Supervisor:
    """The workers of one host, from their start to their end."""

    def __init__(
        self,
        config: HostConfig,
        nursery: Nursery,
        parent_fd: int | None = None,
        membership: Membership | None = None,
        meet: Callable[[HostConfig], Membership | None] | None = None,
    ) -> None:
        """`parent_fd`: a pipe; when it ends, so does the host. `membership`: the other hosts.

        `meet`: the other hosts as they are after a change, if there may be any.
        """
        now = time.monotonic()
        self._config = config
        self._nursery = nursery
        self._parent_fd = parent_fd
        self._company = membership
        self._meet = meet
        self._changes = Changes(nursery.data_dir)
        self._workers = [
            ManagedWorker(spec, RestartHistory(config.restart), due=now, slot=slot)
            for slot, spec in enumerate(config.workers)
        ]
        self._server = ForkServer(nursery, config)
        self._teller = Announcer(config.workers)
        self._heartbeat = Heartbeat(nursery.data_dir)
        self._watch = WorkerWatch(config, nursery.heartbeats, self._workers, nursery.data_dir)
        self._state = HostState.STARTING
        self._exit_code = 0
        self._error: str | None = None
        self._stop_requests = 0
        self._kill_at: float | None = None
        self._published: HostStatus | None = None
        self._publish_at: float | None = None

    def run(self) -> int:
        """Run until the host has ended, and return the exit code of the process."""
        log("host", f"started, pid {os.getpid()}, {len(self._workers)} workers")
        self._publish()
        while self._state not in (HostState.STOPPED, HostState.FAILED):
            self._wait()
            self._hear_signals()
            self._teller.hear(self._nursery.news.read())
            self._reap()
            self._start_due()
            self._watch.look()
            self._look_for_changes()
            if self._company is not None:
                self._company.turn()
            self._heartbeat.beat(time.monotonic())
            self._end_overdue()
            self._publish()
        if self._company is not None:
            self._company.close()
        self._server.wait()
        say(str(self._state))
        return self._exit_code

    def _wait(self) -> None:
        watched = [self._nursery.wakeup.fd, self._nursery.news.fd, *self._server.fds]
        if self._parent_fd is not None:
            watched.append(self._parent_fd)
        if self._company is not None:
            watched += self._company.fds
        due = [worker.due for worker in self._workers if worker.state is WorkerState.WAITING]
        due += [at for at in (self._kill_at, self._publish_at, self._watch.due) if at is not None]
        if self._company is not None:
            due.append(self._company.due)
        if self._meet is not None:
            due.append(self._changes.due)
        if self._server.due is not None and not self._draining:
            due.append(self._server.due)
        timeout = max(0.0, min(due) - time.monotonic())
        ready, _, _ = select.select(watched, [], [], timeout)
        if self._parent_fd in ready:
            self._hear_parent(self._parent_fd)

    def _hear_parent(self, fd: int) -> None:
        if not os.read(fd, 65536):
            self._parent_fd = None
            self._drain("its parent is gone")

    def _hear_signals(self) -> None:
        stop = self._nursery.wakeup.signals() & STOP_SIGNALS
        if not stop:
            return
        self._stop_requests += 1
        # Also one that is giving up, and would be revived, is stopped for good by this.
        if self._company is not None:
            self._company.leave()
        self._drain(signal.Signals(min(stop)).name)
        if self._stop_requests > 1:
            self._kill_at = time.monotonic()

    def _reap(self) -> None:
        dead = {pid: code for pid, code in _dead_children() if not self._server.reaped(pid)}
        # Whoever has died after it told of itself is known by now.
        self._adopt(self._server.reports(), dead)
        for pid, code in dead.items():
            if self._company is not None and self._company.reaped(pid, code):
                continue
            worker = next((each for each in self._workers if each.pid == pid), None)
            if worker is not None:
                self._note_death(worker, code)
            # As process 1 of a container it also inherits orphans, which are nobody's worker; but
            # this may be one that was killed before it could tell of itself.
            elif any(each.asked for each in self._workers):
                self._fork_asked("the fork server lost a worker")

    def _adopt(self, reports: Iterable[Report], dead: Collection[int] = ()) -> None:
        for report in reports:
            worker = self._workers[report.slot]
            if worker.asked and report.pid:
                worker.adopt(report.pid)
                log(worker.name, f"started, pid {worker.pid}")
            elif worker.asked:
                self._start(worker, worker.fork)
            elif report.pid and report.pid not in dead:
                # There is another in its place, or there is to be none any more.
                with suppress(ProcessLookupError):
                    os.kill(report.pid, signal.SIGKILL)

    def _fork_asked(self, why: str) -> None:
        """The fork server does not give what it was asked for."""
        log("host", f"{why}; workers are forked without it")
        self._adopt(self._server.end())
        for worker in self._workers:
            if worker.asked:
                self._start(worker, worker.fork)

    def _note_death(self, worker: ManagedWorker, code: int) -> None:
        lived = time.monotonic() - worker.started
        words = f"{describe_exit(code)}, pid {worker.pid}, after {lived:.1f} s"
        if worker.state is WorkerState.DRAINING:
            log(worker.name, words)
        else:
            tell(worker.name, words if code == EXIT_CANNOT_START else f"{words}; starts again")
        self._teller.lost(worker.name)
        if self._draining:
            worker.ended(WorkerState.STOPPED)
        elif code == EXIT_CANNOT_START:
            worker.ended(WorkerState.STOPPED)
            self._fail(EXIT_CANNOT_START, f"{worker.name} cannot start{self._why(worker)}")
        else:
            worker.ended(WorkerState.WAITING)
            reason = "hung" if worker.hung else describe_exit(code)
            killed = -code in OUTSIDE_SIGNALS and not worker.hung
            self._plan_restart(worker, reason, killed=killed)

    def _plan_restart(self, worker: ManagedWorker, reason: str, *, killed: bool) -> None:
        due = worker.history.died(worker.started, time.monotonic(), killed=killed)
        if due is not None:
            worker.due = due
            return
        policy = self._config.restart
        self._fail(
            EXIT_GAVE_UP,
            f"{worker.name} failed more than {policy.max_restarts} times within "
            f"{policy.window:g} s; at last it {reason}{self._why(worker)}",
        )

    def _why(self, worker: ManagedWorker) -> str:
        words = worker.last_words(self._nursery.data_dir)
        return f": {words}" if words else ""

    def _start_due(self) -> None:
        now = time.monotonic()
        asked = [worker for worker in self._workers if worker.asked]
        if asked and not self._server.fds:
            self._fork_asked("the fork server has ended")
        elif any(worker.due <= now for worker in asked):
            self._fork_asked("the fork server does not answer")
        if not self._draining:
            # Only now: another one knows nothing of what the last one was asked for.
            self._server.start()
        for worker in self._workers:
            if worker.state is WorkerState.WAITING and worker.due <= now:
                self._start(worker, partial(worker.start, server=self._server))
        if not any(worker.asked for worker in self._workers):
            self._server.all_reported()
        if self._state is HostState.STARTING and all(worker.starts for worker in self._workers):
            self._state = HostState.RUNNING

    def _start(self, worker: ManagedWorker, how: Callable[[Nursery], None]) -> None:
        try:
            how(self._nursery)
        except OSError as error:
            log(worker.name, f"cannot be started: {error}")
            self._plan_restart(worker, f"could not be started ({error})", killed=False)
        else:
            if worker.pid is not None:
                log(worker.name, f"started, pid {worker.pid}")

    def _look_for_changes(self) -> None:
        """Others have come or gone: know them, and let the gateway read where they are."""
        if self._meet is None or self._draining:
            return
        now = time.monotonic()
        config = self._changes.look(now)
        if config is None:
            return
        if config.election != self._config.election:
            self._renew_company(config)
        if self._changes.gateway_changed():
            for worker in self._workers:
                if worker.spec.entry is not None and worker.state is WorkerState.RUNNING:
                    worker.drain(now + self._config.drain_timeout)

    def _renew_company(self, config: HostConfig) -> None:
        """As after a start: a new life among the others, which leads nobody yet."""
        assert self._meet is not None
        if self._company is not None:
            self._company.close()
        self._company, self._config = None, replace(self._config, election=None)
        try:
            self._company = self._meet(config)
        except (StateError, UsageError) as error:
            # The work goes on meanwhile, and the heartbeat, so that nobody takes it for dead.
            tell("host", f"cannot meet the other hosts: {error}")
            self._changes.again(time.monotonic())
            return
        self._config = replace(self._config, election=config.election)
        others = ", ".join(config.election.peers) if config.election else "nobody"
        tell("host", f"knows {others} now")

    @property
    def _draining(self) -> bool:
        return self._state is HostState.DRAINING

    def _fail(self, code: int, error: str) -> None:
        say(f"gives up: {error}")
        self._exit_code = code
        self._error = error
        self._drain("a worker cannot go on")

    def _drain(self, reason: str) -> None:
        """Ask all workers to end, and start none again."""
        if self._draining:
            return
        log("host", f"draining: {reason}")
        again = "; Ctrl-C again ends it at once" if has_terminal() else ""
        say(f"stopping: finishes what is in hand{again}")
        # A host that broke down wants to be revived; one that is to end, or cannot start, not.
        if self._company is not None and self._exit_code in (0, EXIT_CANNOT_START):
            self._company.leave()
        self._state = HostState.DRAINING
        self._kill_at = time.monotonic() + self._config.drain_timeout
        for worker in self._workers:
            if worker.pid is None:
                worker.asked = False
                worker.enter(WorkerState.STOPPED)
            else:
                worker.drain()
        self._adopt(self._server.end())

    def _end_overdue(self) -> None:
        if not self._draining:
            return
        alive = [worker for worker in self._workers if worker.pid is not None]
        if not alive:
            self._state = HostState.FAILED if self._error else HostState.STOPPED
        elif self._kill_at is not None and self._kill_at <= time.monotonic():
            self._kill_at = None
            for worker in alive:
                tell(worker.name, f"did not end in time, is killed, pid {worker.pid}")
                worker.signal(signal.SIGKILL)

    def _publish(self) -> None:
        """Write the report when it tells something new."""
        status = self.status()
        if status == self._published:
            self._publish_at = None
            return
        try:
            write_status(self._nursery.data_dir, status)
        except OSError as error:
            if self._publish_at is None:
                log("host", f"cannot write its status: {error}")
            self._publish_at = time.monotonic() + _STATUS_RETRY
        else:
            self._published, self._publish_at = status, None

    def status(self) -> HostStatus:
        workers = tuple(worker.status() for worker in self._workers)
        restarts = sum(worker.restarts for worker in workers)
        leading = self._company.leading() if self._company else Leading(None, None)
        code = self._exit_code if self._error else None
        return HostStatus(
            os.getpid(),
            self._state,
            restarts,
            workers,
            self._error,
            code,
            *leading,
            ready=self._teller.ready,
        )


def _dead_children() -> Iterator[tuple[int, int]]:
    """Reaps them; each with its exit code."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            yield pid, os.waitstatus_to_exitcode(status)
