"""`booksan run` as the user meets it: options in, answers, messages and an exit code out."""

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from booksan.errors import BooksanError, UsageError
from booksan.local.run import Options, Summary, run
from booksan.local.workspace import state_home
from booksan.memory import quiet_collector
from booksan.stages.datasets import dataset_named
from booksan_client.cutter import BATCH_BYTES
from booksan_client.display import RunDisplay
from booksan_client.files import check_directory
from booksan_client.out import FORMATS
from booksan_client.outcome import conclude, ended, log_bug, print_json
from booksan_client.submit import check_choice
from booksan_client.terminal import PatientConsole


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
    quiet_collector()

    def work(err: Console, stopping: Callable[[], bool]) -> int:
        try:
            options = _options(request)
            display = RunDisplay(err, None if as_json else PatientConsole())
            with closing(display):
                summary = run(options, display, stopping)
        except BooksanError as error:
            log = f"; {log_bug()}" if error.exit_code == BooksanError.exit_code else ""
            return ended(err, as_json, f"{error}{log}", error.exit_code)
        if as_json:
            print_json(_document(options, summary))
        else:
            display.note(_words(options, summary))
        return 0

    return conclude(
        work, as_json=as_json, places=lambda: (request.data_dir or state_home(), request.out)
    )


def _options(request: Request) -> Options:
    dataset = dataset_named(request.dataset)
    options = Options(
        dataset=dataset,
        paths=request.files,
        out=request.out,
        params={},
        workers=request.workers or os.cpu_count() or 1,
        format=request.format,
        data_dir=request.data_dir,
        max_rejected=request.max_rejected,
        batch_bytes=request.batch_bytes or BATCH_BYTES,
    )
    options.description.check_files(len(request.files))
    check_directory(request.out, UsageError)
    _check_apart(request.out, request.data_dir)
    check_choice("format", request.format, FORMATS)
    options.params.update(options.description.parse_params(request.settings))
    return options


def _check_apart(out: Path, data_dir: Path | None) -> None:
    if data_dir is not None and out.resolve().is_relative_to(data_dir.resolve()):
        raise UsageError(
            f"--out {out} lies in --data-dir {data_dir}, which is emptied at the end; "
            "name another one"
        )


def _document(options: Options, summary: Summary) -> dict[str, object]:
    found = asdict(summary)
    found["megabytes"] = round(summary.megabytes, 3)
    found["seconds"] = round(summary.seconds, 3)
    return found | {"dataset": options.dataset.name, "params": options.params, "exit_code": 0}


def _words(options: Options, summary: Summary) -> str:
    rows = ", ".join(f"{count:,} {name}" for name, count in summary.rows.items())
    rate = summary.megabytes / summary.seconds
    restarts = f", {summary.restarts} restarts" if summary.restarts else ""
    rejected = sum(summary.rejected.values())
    return (
        f"{rows} in {summary.seconds:.1f} s ({rate:.1f} MB/s), {rejected:,} rejected"
        f"{restarts}; the answers are in {options.out}"
    )
