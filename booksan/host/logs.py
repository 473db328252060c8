"""The supervisor's log on stderr, what it says on a terminal, and the files of its workers.

On a terminal a person reads: it gets the few lines that `say` and `tell` are for, and the log goes
to a file. Elsewhere the log is all there is, and has those lines too.
"""

import os
import select
import time
from contextlib import suppress
from pathlib import Path

from booksan.events import is_debug, words_of, write
from booksan_common.names import plain

LOGS = "logs"
SUPERVISOR_LOG = "supervisor.log"

#: Bytes after which a log begins anew. What it held is kept beside it, as `q3-join.0.log.1`, until
#: the next time: a host with twenty workers has 350 MB of logs at most.
LOG_BYTES = 8 * 1024 * 1024

#: Bytes that are copied at once.
_PIECE = 1024 * 1024

#: Bytes at the end of a log that are looked at for its last line.
_TAIL = 4096


class _Terminal:
    """The one that the supervisor was started on, if it was."""

    fd: int | None = None


def take_terminal(data_dir: Path) -> None:
    """If stderr is a terminal, it is for people from now on; the log goes to its file."""
    if not os.isatty(2):
        return
    try:
        (data_dir / LOGS).mkdir(exist_ok=True)
        path = data_dir / LOGS / SUPERVISOR_LOG
        output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        # A full disk must not keep a host from starting, nor fill the terminal with its log.
        output = os.open(os.devnull, os.O_WRONLY)
    _Terminal.fd = os.dup(2)
    os.dup2(output, 2)
    os.close(output)


def has_terminal() -> bool:
    return _Terminal.fd is not None


def log(who: str, event: str, *, client: str | None = None) -> None:
    """One line about one event, of the host itself or of a worker."""
    write(event, worker=None if who == "host" else who, client=client)


def tell(who: str, event: str, *, client: str | None = None) -> None:
    """An event that a person at the terminal wants to hear of, with its time."""
    log(who, event, client=client)
    _show(f"{time.strftime('%H:%M:%S')} {event if who == 'host' else f'{who} {event}'}")


def say(text: str, *, more: bool = False) -> None:
    """How the host itself is; `more`: in the words of the line before."""
    log("host", text)
    _show(f"{'         ' if more else 'booksan: '}{text}")


def _show(line: str) -> None:
    """A terminal that is gone, or that nobody reads (Ctrl-S), must not hold the host up."""
    if _Terminal.fd is None:
        return
    with suppress(OSError):
        if select.select([], [_Terminal.fd], [], 0)[1]:
            # Over the ^C that the terminal may have shown.
            os.write(_Terminal.fd, f"\r{plain(line)}\n".encode())


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
    """The words of the last line that was written after `offset`, debug lines aside, or nothing."""
    try:
        with path.open("rb") as file:
            end = size(path)
            # A log that is shorter by now was begun anew.
            file.seek(max(offset if offset <= end else 0, end - _TAIL))
            lines = file.read(_TAIL).decode(errors="replace").split("\n")
    except OSError:
        return ""
    last = next(
        (line.strip() for line in reversed(lines) if line.strip() and not is_debug(line)), ""
    )
    return words_of(last)
