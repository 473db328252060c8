"""The driver's side of a host: start it, look at it, stop it."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import booksan
from booksan.errors import BooksanError, UsageError
from booksan.host.logs import LOGS, SUPERVISOR_LOG, last_line, size
from booksan.host.status import (
    EXIT_CANNOT_START,
    EXIT_GAVE_UP,
    EXIT_LOCKED,
    GENERATION_TIMEOUT,
    STATUS_FILE,
    HostState,
    HostStatus,
    read_status,
    workers_alive,
)

#: Seconds that a new supervisor has for its first report, with the machine under load.
_START_TIMEOUT = 30.0

#: Seconds between two looks at a process or a file that cannot be waited on.
_LOOK_AGAIN = 0.01

#: A supervisor that ended with one of these has reaped its workers, or had none.
_ORDERLY_EXITS = frozenset({0, EXIT_GAVE_UP, EXIT_LOCKED, EXIT_CANNOT_START})


class Host:
    """A supervisor with its workers, as a process tree below this one.

    The tree has a session of its own: Ctrl-C reaches this process alone, which stops the tree in
    order. It also ends when this process does, however that happens, since it watches the pipe that
    is its standard input.
    """

    def __init__(
        self, data_dir: Path, env: Mapping[str, str] | None = None, lock_timeout: float = 10.0
    ) -> None:
        """`env` is added to the environment of the workers. `lock_timeout`, in seconds, is how long
        a start waits for an earlier host of the same directory to end."""
        self._data_dir = data_dir
        self._env = dict(env or {})
        self._lock_timeout = lock_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._log_offset = 0
        #: The report that was there before the start: its writer may have had the same pid.
        self._old_report: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The supervisor's process, dead or alive."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the supervisor and wait for its first report."""
        if self._process is not None and self.poll() is None:
            raise BooksanError(f"The host in {self._data_dir} runs already, process {self.pid}.")
        self._old_report = self._report_identity()
        self._process = self._spawn()
        try:
            self._wait_for_report(self._process)
        except BaseException:
            self.stop()
            raise

    def status(self) -> HostStatus | None:
        """Read the last report of this supervisor; None before its first one."""
        if self._report_identity() == self._old_report:
            return None
        status = read_status(self._data_dir)
        return status if status is not None and status.pid == self.pid else None

    def poll(self) -> int | None:
        """Return the exit code of the supervisor, negative for a signal; None while it runs."""
        return self._process.poll() if self._process else None

    def stop(self, timeout: float = 15.0) -> int:
        """Drain and end the tree; past `timeout` seconds kill it. Returns the exit code."""
        process = self._process
        if process is None:
            return 0
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
        code = process.wait()
        if process.stdin is not None:
            process.stdin.close()
        if code not in _ORDERLY_EXITS:
            self._wait_for_workers()
        return code

    def restart(self) -> None:
        """Start a new supervisor in the place of a dead one. One that still runs is stopped."""
        self.stop()
        self.start()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        logs = self._data_dir / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        command = supervisor_command(self._data_dir)
        command += ["--with-parent", "--wait-lock", str(self._lock_timeout)]
        self._log_offset = size(logs / SUPERVISOR_LOG)
        with (logs / SUPERVISOR_LOG).open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=with_package(os.environ | self._env),
                start_new_session=True,
            )

    def _wait_for_report(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + self._lock_timeout + _START_TIMEOUT
        while self.status() is None and time.monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_AGAIN)
                break
        status = self.status()
        if status is None or status.state is HostState.FAILED:
            raise self._failed_start(process.poll(), status)

    def _failed_start(self, code: int | None, status: HostStatus | None) -> BooksanError:
        if status is not None and status.error is not None:
            return BooksanError(status.error)
        if code is None:
            return BooksanError(f"The supervisor in {self._data_dir} does not answer.")
        words = last_line(self._data_dir / LOGS / SUPERVISOR_LOG, self._log_offset)
        kind = UsageError if code == EXIT_LOCKED else BooksanError
        return kind(f"The supervisor in {self._data_dir} ended with code {code}: {words}")

    def _report_identity(self) -> tuple[int, int] | None:
        try:
            found = (self._data_dir / STATUS_FILE).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _wait_for_workers(self) -> None:
        """A killed supervisor takes its workers with it, but they need a moment."""
        deadline = time.monotonic() + GENERATION_TIMEOUT
        while workers_alive(self._data_dir):
            if time.monotonic() > deadline:
                raise BooksanError(
                    f"Workers in {self._data_dir} have not ended, though they were killed."
                )
            time.sleep(_LOOK_AGAIN)


def supervisor_command(data_dir: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "booksan.supervisor", str(data_dir)]


def with_package(env: Mapping[str, str]) -> dict[str, str]:
    """Let the supervisor find the package where this process found it, and nothing else.

    It runs with -P: files in the user's directory must not take the place of modules.
    """
    root = Path(booksan.__file__).resolve().parent.parent
    if root.name in ("site-packages", "dist-packages"):
        return dict(env)
    paths = [str(root), *filter(None, [env.get("PYTHONPATH")])]
    return {**env, "PYTHONPATH": os.pathsep.join(paths)}
