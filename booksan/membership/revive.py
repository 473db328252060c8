"""`python -m booksan.membership.revive DATA_DIR`: a host that is dead or hangs is started again.

Harmless when done twice: a lock keeps a second one out, a host that has just been started is left
alone, and the old tree is gone before the new one begins. One that only does not hear datagrams is
left alone as well: its heartbeat tells.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from booksan.host.handle import supervisor_command
from booksan.host.logs import log
from booksan.host.status import (
    EXIT_AT_WORK,
    EXIT_CANNOT_START,
    GENERATION_TIMEOUT,
    HOST_LOCK,
    HostState,
    read_status,
    supervisor_pid,
    workers_alive,
)
from booksan.membership.liveness import is_at_work
from booksan_common.files import is_locked, try_lock

REVIVAL_LOCK = "revival.lock"
#: There while somebody stops the host for good.
STOPPED_FILE = "stopped"
#: Seconds in which a supervisor that was just started need not answer yet.
YOUNG = 6.0
_LOOK_AGAIN = 0.02


def main(arguments: Sequence[str]) -> int:
    data_dir = Path(arguments[0])
    return 0 if try_lock(data_dir / REVIVAL_LOCK) is None else revive(data_dir)


def revival_under_way(data_dir: Path) -> bool:
    """Somebody is just reviving the host; one who begins later sees that it is stopped."""
    return is_locked(data_dir / REVIVAL_LOCK)


def revive(data_dir: Path) -> int:
    reason = _why_not(data_dir)
    if reason is not None:
        log("revival", f"leaves it: {reason}")
        return 0
    if is_at_work(data_dir):
        return EXIT_AT_WORK
    _end(data_dir)
    # Everything up to here may have taken a while.
    if (data_dir / STOPPED_FILE).exists():
        return 0
    _start(data_dir)
    return 0


def _why_not(data_dir: Path) -> str | None:
    if (data_dir / STOPPED_FILE).exists():
        return "the host was stopped"
    holder = supervisor_pid(data_dir)
    if holder is not None:
        age = time.time() - (data_dir / HOST_LOCK).stat().st_mtime
        return f"process {holder} was just started" if 0 <= age < YOUNG else None
    status = read_status(data_dir)
    if status is None:
        return None
    if status.state is HostState.STOPPED:
        return "the host ended in order"
    if status.state is HostState.FAILED and status.code == EXIT_CANNOT_START:
        return f"the host cannot start: {status.error}"
    return None


def _end(data_dir: Path) -> None:
    """Kill before start: a stopped or hanging supervisor cannot be asked. Workers die with it."""
    deadline = time.monotonic() + GENERATION_TIMEOUT
    while time.monotonic() < deadline:
        holder = supervisor_pid(data_dir)
        if holder is None and not workers_alive(data_dir):
            return
        if holder is not None:
            log("revival", f"kills the old supervisor, pid {holder}")
            # It holds the lock, so the pid is its own.
            with suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN)


def _start(data_dir: Path) -> None:
    """In a session of its own, as a child of nobody: it outlives this process and the leader."""
    process = subprocess.Popen(
        supervisor_command(data_dir),
        stdin=subprocess.DEVNULL,
        cwd=data_dir,
        start_new_session=True,
    )
    log("revival", f"started the host again, pid {process.pid}")
    _wait_for_lock(data_dir, process)


def _wait_for_lock(data_dir: Path, process: "subprocess.Popen[bytes]") -> None:
    """Until the new one can be found by its lock: whoever stops the host waits for this process."""
    deadline = time.monotonic() + GENERATION_TIMEOUT
    while supervisor_pid(data_dir) is None and process.poll() is None:
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_AGAIN)
    # Python must not wait for it at the end.
    process.returncode = process.returncode or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
