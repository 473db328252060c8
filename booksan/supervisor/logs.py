"""The supervisor's log on stderr, and the files that hold the workers' output."""

import os
import time
from contextlib import suppress
from pathlib import Path

LOGS = "logs"
SUPERVISOR_LOG = "supervisor.log"

#: Bytes at the end of a log that are looked at for its last line.
_TAIL = 4096


def log(who: str, event: str) -> None:
    """Write one line about one event."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    line = f"{stamp}.{int(now * 1000) % 1000:03d} {who} {event}\n"
    # A full disk or a reader that is gone must not end the host.
    with suppress(OSError):
        os.write(2, line.encode())


def log_path(data_dir: Path, worker: str) -> Path:
    return data_dir / LOGS / f"{worker}.log"


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def last_line(path: Path, offset: int) -> str:
    """Return the last line that was written after `offset`, or nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(offset, size(path) - _TAIL))
            lines = file.read(_TAIL).decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
