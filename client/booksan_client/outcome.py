"""How a command ends: one line or one JSON document, an exit code, and never a traceback."""

import errno
import io
import json
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from booksan_client.errors import ClientError, NoSpace, UsageError
from booksan_client.files import existing, write_private
from booksan_client.interrupts import heed
from booksan_client.state import state_home
from booksan_client.terminal import PatientConsole, mute, shown

EXIT_INTERNAL = 1


def conclude(
    work: Callable[[Console, Callable[[], bool]], int],
    *,
    as_json: bool,
    places: Callable[[], Sequence[Path]] = lambda: (),
) -> int:
    """Runs a command with a console for stderr and a flag that says whether to stop.

    `places` are the directories that it writes to; a full one is named.
    """
    never_fail_at_output()
    err = PatientConsole(stderr=True)
    try:
        return work(err, stop_flag())
    except ClientError as error:
        log = f"; {log_bug()}" if error.exit_code == EXIT_INTERNAL else ""
        return ended(err, as_json, f"{error}{log}", error.exit_code)
    except OSError as error:
        return ended(err, as_json, *os_error(error, places()))
    except Exception as error:  # noqa: BLE001 - a bug: the user gets one line, the log the rest
        return ended(err, as_json, f"internal error: {error!r}; {log_bug()}", EXIT_INTERNAL)


def never_fail_at_output() -> None:
    """A character that the terminal cannot show must not end a run of hours."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def stop_flag() -> Callable[[], bool]:
    """SIGINT and SIGTERM only raise a flag; a second one ends the process at once."""
    stop = False

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal stop
        stop = True
        signal.signal(signum, signal.SIG_DFL)

    heed(handle, signal.SIGINT, signal.SIGTERM)
    return lambda: stop


def os_error(error: OSError, places: Sequence[Path]) -> tuple[str, int]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"no space left where {_fullest(places)} is; make room, then the same command goes on "
            "where it was",
            NoSpace.exit_code,
        )
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; {log_bug()}", EXIT_INTERNAL


def _fullest(places: Sequence[Path]) -> Path:
    """A failed write does not tell where; of the places that are written to, it was this one."""
    known = [*places] or [state_home()]
    return min(known, key=lambda place: shutil.disk_usage(existing(place)).free)


def log_bug() -> str:
    """Keeps the traceback of the error that is being handled where a developer finds it."""
    try:
        path = state_home() / "error.log"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, traceback.format_exc().encode(errors="backslashreplace"))
    except (OSError, UsageError) as error:
        return f"the details could not be written: {error}"
    return f"the details are in {path}"


def ended(err: Console, as_json: bool, message: str, code: int) -> int:
    if as_json:
        print_json({"error": message, "exit_code": code})
    err.print(shown(f"booksan: {message}"), soft_wrap=True)
    return code


def print_json(document: dict[str, Any]) -> None:
    """In ASCII, so that it is the same document in every locale."""
    text = json.dumps(document, indent=2)
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        mute(sys.stdout)
