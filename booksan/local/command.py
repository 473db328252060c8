"""`booksan run` as the user meets it: options in, answers, messages and an exit code out."""

import errno
import io
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from booksan.answers import Format, check_directory, existing
from booksan.errors import BooksanError, InputError, NoSpace, UsageError
from booksan.local.display import PatientConsole, RunDisplay, mute
from booksan.local.run import Interrupted, Options, Summary, run
from booksan.local.workspace import state_home
from booksan.memory import quiet_collector
from booksan.stages.datasets import dataset_named
from booksan_client.cutter import BATCH_BYTES
from booksan_client.errors import InputError as ClientInputError

EXIT_INTERNAL = 1
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Request:
    """The command line, not looked at yet."""

    dataset: str
    files: list[Path]
    out: Path
    workers: int | None
    settings: list[str]
    format: str
    data_dir: Path | None
    max_rejected: int | None
    batch_bytes: int | None


def run_command(request: Request, *, as_json: bool) -> int:
    _never_fail_at_output()
    err = PatientConsole(stderr=True)
    quiet_collector()
    try:
        options = _options(request)
        display = RunDisplay(err, None if as_json else PatientConsole(), options.params)
        with closing(display):
            summary = run(options, display, _stop_flag())
    except Interrupted:
        return _ended(
            err, as_json, "interrupted; the same command goes on where it was", EXIT_INTERRUPTED
        )
    except BooksanError as error:
        log = f"; {_log_bug()}" if error.exit_code == EXIT_INTERNAL else ""
        return _ended(err, as_json, f"{error}{log}", error.exit_code)
    except ClientInputError as error:
        return _ended(err, as_json, str(error), InputError.exit_code)
    except OSError as error:
        return _ended(err, as_json, *_os_error(error, request))
    except Exception as error:  # noqa: BLE001 - a bug: the user gets one line, the log the rest
        return _ended(err, as_json, f"internal error: {error!r}; {_log_bug()}", EXIT_INTERNAL)
    _tell(err, options, summary, as_json)
    return 0


def _options(request: Request) -> Options:
    dataset = dataset_named(request.dataset)
    if len(request.files) != len(dataset.sources):
        names = " ".join(f"{source.name.upper()}_CSV" for source in dataset.sources)
        raise UsageError(
            f"{dataset.name} takes {len(dataset.sources)} files, {names}; {len(request.files)} "
            "were given"
        )
    check_directory(request.out)
    _check_apart(request.out, request.data_dir)
    try:
        form = Format(request.format)
    except ValueError:
        known = ", ".join(Format)
        raise UsageError(f"no format {request.format!r}; there is: {known}") from None
    return Options(
        dataset=dataset,
        paths=request.files,
        out=request.out,
        params=dataset.parse_params(request.settings),
        workers=request.workers or os.cpu_count() or 1,
        format=form,
        data_dir=request.data_dir,
        max_rejected=request.max_rejected,
        batch_bytes=request.batch_bytes or BATCH_BYTES,
    )


def _check_apart(out: Path, data_dir: Path | None) -> None:
    if data_dir is not None and out.resolve().is_relative_to(data_dir.resolve()):
        raise UsageError(
            f"--out {out} lies in --data-dir {data_dir}, which is emptied at the end; "
            "name another one"
        )


def _never_fail_at_output() -> None:
    """A character that the terminal cannot show must not end a run of hours."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _stop_flag() -> Callable[[], bool]:
    """SIGINT and SIGTERM only raise a flag; a second one ends the process at once."""
    stop = False

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal stop
        stop = True
        signal.signal(signum, signal.SIG_DFL)

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
    return lambda: stop


def _os_error(error: OSError, request: Request) -> tuple[str, int]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"no space left where {_fullest(request)} is; make room, then the same command goes on "
            "where it was",
            NoSpace.exit_code,
        )
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; {_log_bug()}", EXIT_INTERNAL


def _fullest(request: Request) -> Path:
    """A failed write does not tell where; of the places that are written to, it was this one."""
    places = (request.data_dir or state_home(), request.out)
    return min(places, key=lambda place: shutil.disk_usage(existing(place)).free)


def _log_bug() -> str:
    try:
        path = state_home() / "error.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(traceback.format_exc(), encoding="utf-8")
    except (OSError, UsageError) as error:
        return f"the details could not be written: {error}"
    return f"the details are in {path}"


def _ended(err: Console, as_json: bool, message: str, code: int) -> int:
    if as_json:
        _print_json({"error": message, "exit_code": code})
    err.print(Text(f"booksan: {message}"), soft_wrap=True)
    return code


def _tell(err: Console, options: Options, summary: Summary, as_json: bool) -> None:
    if as_json:
        found = asdict(summary)
        found["megabytes"] = round(summary.megabytes, 3)
        found["seconds"] = round(summary.seconds, 3)
        found |= {"dataset": options.dataset.name, "params": options.params, "exit_code": 0}
        _print_json(found)
        return
    rows = ", ".join(f"{count:,} {name}" for name, count in summary.rows.items())
    rate = summary.megabytes / summary.seconds
    restarts = f", {summary.restarts} restarts" if summary.restarts else ""
    rejected = sum(summary.rejected.values())
    err.print(
        Text(
            f"booksan: {rows} in {summary.seconds:.1f} s ({rate:.1f} MB/s), {rejected:,} rejected"
            f"{restarts}; the answers are in {options.out}"
        ),
        soft_wrap=True,
    )


def _print_json(document: dict[str, Any]) -> None:
    """In ASCII, so that it is the same document in every locale."""
    text = json.dumps(document, indent=2)
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        mute(sys.stdout)
