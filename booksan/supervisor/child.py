"""What a new process does before it is a worker."""

import faulthandler
import importlib
import io
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from booksan import pulse
from booksan.events import write
from booksan.supervisor.config import WorkerSpec
from booksan.supervisor.logs import log_path
from booksan.supervisor.states import EXIT_CANNOT_START
from booksan.supervisor.tether import Tether
from booksan.supervisor.wakeup import Wakeup

Entry = Callable[[Path, str, int], int]


@dataclass(frozen=True)
class Nursery:
    """All that a child takes over from its supervisor."""

    data_dir: Path
    entry: str
    wakeup: Wakeup
    tether: Tether
    #: The lock that is free again when the last worker is gone.
    workers_lock: int
    #: Where the workers give their signs of life.
    pulses: pulse.Pulses


def become_worker(nursery: Nursery, spec: WorkerSpec, slot: int, mask: set[int]) -> NoReturn:
    """Be the worker, and never come back: the code above belongs to the supervisor."""
    code = 1
    try:
        _leave_supervisor(nursery, mask, log_path(nursery.data_dir, spec.name))
        pulse.take(nursery.pulses, slot)
        code = _run(nursery, spec)
    except SystemExit as stop:
        code = _exit_code(stop)
    finally:
        try:
            _flush_output(spec.name)
        finally:
            os._exit(code)


def _leave_supervisor(nursery: Nursery, mask: set[int], log: Path) -> None:
    nursery.tether.tie()
    nursery.wakeup.forget_in_child(mask)
    _redirect_output(log)
    _close_all_but({nursery.workers_lock, *nursery.tether.child_fds})
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
