"""Processes of a node whose keeper is gone."""

from collections.abc import Iterator
from pathlib import Path

import psutil

from booksan.broker.files import MARK
from booksan.errors import BooksanError

#: Seconds that a killed process may take to be gone: it may sit in an fsync.
GONE_SECONDS = 20.0


def end_leftovers(directory: Path) -> None:
    """Kills what still runs in the directory: two nodes would ruin each other's data."""
    processes = list(find_leftovers(directory))
    for process in processes:
        # It may end by itself meanwhile, which is as good.
        if process.is_running():
            _kill(process)
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    if alive:
        pids = ", ".join(str(process.pid) for process in alive)
        raise BooksanError(f"processes {pids} of the broker in {directory} cannot be ended")


def find_leftovers(directory: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            marked = process.environ().get(MARK) == str(directory)
        except (psutil.Error, OSError):
            # Gone, or of another user, whose processes are not ours to end.
            continue
        if marked:
            yield process


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
