"""The supervisor's log on stderr, and the files that hold the workers' output."""

import os
from contextlib import suppress
from pathlib import Path

from booksan.events import words_of, write

LOGS = "logs"
SUPERVISOR_LOG = "supervisor.log"

#: Bytes after which a log begins anew. What it held is kept beside it, as `q3-join.0.log.1`, until
#: the next time: a host with twenty workers has 350 MB of logs at most.
LOG_BYTES = 8 * 1024 * 1024

#: Bytes that are copied at once.
_PIECE = 1024 * 1024

#: Bytes at the end of a log that are looked at for its last line.
_TAIL = 4096


def log(who: str, event: str) -> None:
    """One line about one event, of the host itself or of a worker."""
    write(event, worker=None if who == "host" else who)


def log_path(data_dir: Path, worker: str) -> Path:
    return data_dir / LOGS / f"{worker}.log"


def rotate(data_dir: Path) -> None:
    """Begin the logs anew that have become too long.

    Their writers have them open and append, so the file itself stays and is emptied. What is
    written between the end of the copy and that moment is lost.
    """
    with suppress(OSError), os.scandir(data_dir / LOGS) as entries:
        # On a full disk there is no room for a copy; but then the log does not grow either.
        for entry in entries:
            if entry.name.endswith(".log") and entry.stat().st_size > LOG_BYTES:
                _begin_anew(Path(entry.path))


def _begin_anew(path: Path) -> None:
    before, copy = path.with_name(f"{path.name}.1"), path.with_name(f"{path.name}.tmp")
    try:
        with path.open("rb") as old, copy.open("wb") as new:
            end = 0
            while piece := old.read(_PIECE):
                new.write(piece)
                end = new.tell() - len(piece) + piece.rfind(b"\n") + 1 if b"\n" in piece else end
            # A line that is being written right now may be there in part.
            new.truncate(end or new.tell())
        copy.replace(before)
    except OSError:
        copy.unlink(missing_ok=True)
        raise
    os.truncate(path, 0)


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def last_line(path: Path, offset: int) -> str:
    """Return the words of the last line that was written after `offset`, or nothing."""
    try:
        with path.open("rb") as file:
            end = size(path)
            # A log that is shorter by now was begun anew.
            file.seek(max(offset if offset <= end else 0, end - _TAIL))
            lines = file.read(_TAIL).decode(errors="replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return words_of(last)
