"""Processes that are not our children, told apart from later ones that got the same pid."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from booksan.host.status import supervisor_pid
from booksan_common.commands import heeded

#: The variable by which the processes of a cluster are known to be of its directory.
MARK = "BOOKSAN_CLUSTER"

#: Seconds between two looks at a process that cannot be waited on.
_LOOK_AGAIN = 0.02


class ProcessId(NamedTuple):
    pid: int
    #: The boot and the moment of the start in it: no two processes with a pid share them.
    birth: str


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now; None when there is none, or only its remains."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except ProcessLookupError:
        return None
    except OSError:
        return _identify_elsewhere(pid)
    # The name in brackets may hold anything; what follows it does not.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else ProcessId(pid, f"{boot}/{fields[19]}")


def _identify_elsewhere(pid: int) -> ProcessId | None:
    """On systems without /proc, and for pids that are not there."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessId(pid, f"{process.create_time():.2f}")
    except (psutil.Error, ValueError):
        return None


def is_alive(process: ProcessId | None) -> bool:
    return process is not None and identify(process.pid) == process


def send(process: ProcessId, signum: signal.Signals) -> None:
    """Signal this very process; one that is gone needs none."""
    with suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open"):
            if is_alive(process):
                os.kill(process.pid, signum)
            return
        # An open pidfd stays with its process, so nothing can slip in after the look.
        descriptor = os.pidfd_open(process.pid)
        try:
            if is_alive(process):
                signal.pidfd_send_signal(descriptor, signum)
        finally:
            os.close(descriptor)


def wait_gone(processes: Collection[ProcessId], seconds: float) -> list[ProcessId]:
    """Those that still live when the time is over."""
    deadline = time.monotonic() + seconds
    while alive := [process for process in processes if is_alive(process)]:
        if time.monotonic() >= deadline:
            return alive
        time.sleep(_LOOK_AGAIN)
    return []


def supervisor_of(data_dir: Path) -> ProcessId | None:
    """Whoever holds the lock of a data directory, whichever way it was started."""
    pid = supervisor_pid(data_dir)
    return None if pid is None else identify(pid)


def marked(directory: Path) -> list[ProcessId]:
    """All processes of a cluster, also those that nobody wrote down."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get(MARK) == str(directory)
        except (psutil.Error, OSError):
            # Gone, or of another user, whose processes are not ours to end.
            continue
        if ours and (one := identify(process.pid)):
            found.append(one)
    return found


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back: what is started must be known before anybody stops."""
    came: list[int] = []
    signums = heeded(signal.SIGINT, signal.SIGTERM)
    before = {one: signal.signal(one, lambda found, _: came.append(found)) for one in signums}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    if came:
        raise KeyboardInterrupt


def spawn(command: Sequence[str], log: Path, env: Mapping[str, str], directory: Path) -> ProcessId:
    """Start a process of its own session that outlives this one."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(env),
            cwd=directory,
            start_new_session=True,
        )
    # Taken before anybody reaps it, so the pid is still its own.
    found = identify(process.pid)
    # Should it end while we live, somebody must reap it.
    threading.Thread(target=process.wait, name=f"reap-{process.pid}", daemon=True).start()
    return found or ProcessId(process.pid, "ended at once")
