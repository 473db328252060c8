"""The supervisor's log on stderr, and the files that hold the workers' output."""

from pathlib import Path

from booksan.events import words_of, write

LOGS = "logs"
SUPERVISOR_LOG = "supervisor.log"

#: Bytes at the end of a log that are looked at for its last line.
_TAIL = 4096


def log(who: str, event: str) -> None:
    """One line about one event, of the host itself or of a worker."""
    write(event, worker=None if who == "host" else who)


def log_path(data_dir: Path, worker: str) -> Path:
    return data_dir / LOGS / f"{worker}.log"


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def last_line(path: Path, offset: int) -> str:
    """Return the words of the last line that was written after `offset`, or nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(offset, size(path) - _TAIL))
            lines = file.read(_TAIL).decode(errors="replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return words_of(last)
