"""The command `booksan`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import booksan
from booksan.bench.cli import app as bench
from booksan.chaos.cli import chaos
from booksan.cluster import cli as cluster
from booksan.errors import BooksanError, NoSpace
from booksan.files import NO_ROOM
from booksan.generate import cli as generate
from booksan.operate import cli as operate
from booksan_client.cli import app as client

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Answers queries over streamed CSV files, the same to the last byte whatever is killed.",
)
app.command(context_settings=generate.SETTINGS)(generate.generate)
app.add_typer(bench, name="bench")
# Without a name, its commands become those of booksan: submit, status, results, cancel, list.
app.add_typer(client)
app.add_typer(cluster.app, name="cluster")
app.command()(cluster.host)
app.add_typer(operate.app, name="letters")
app.command()(operate.inspect)
app.command()(chaos)

EXIT_CODES = (
    "Exit codes: 0 done; 1 internal error; 2 usage; 3 the input is not usable; 4 too many rejected "
    "rows; 5 the run failed; 6 no space left; 130 interrupted."
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"booksan {booksan.__version__}")
        raise typer.Exit


@app.callback()
def booksan_app(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Shows the version."),
    ] = False,
) -> None:
    """Answers queries over streamed CSV files, the same to the last byte whatever is killed."""


@app.command(epilog=EXIT_CODES)
def run(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="The data set; `booksan datasets` lists them.")
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            # An unreadable file is found later, as a matter of the input and not of usage.
            readable=False,
            metavar="FILES",
            help="Its files in order, plain or .gz.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory for the answers, q1.csv and so on.")],
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Processes for the costly stage.", show_default="one for each core"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter, e.g. q3.min_reviews=5."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="csv, json or parquet.", metavar="FORMAT")
    ] = "csv",
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where the work is kept until it is done.",
            show_default="in the user's state directory",
        ),
    ] = None,
    max_rejected: Annotated[
        int | None,
        typer.Option(min=0, help="Stop when more rows are rejected.", show_default="no limit"),
    ] = None,
    batch_bytes: Annotated[
        int | None, typer.Option(min=1, max=4 * 1024 * 1024, help="Size of a batch.", hidden=True)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")
    ] = False,
) -> None:
    """Answers the queries of a data set on this machine.

    The same command after Ctrl-C, a kill or a crash goes on where it was.
    """
    # One worker uses one thread, and so does the gateway; polars reads this on import.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from booksan.local.command import Request, run_command

    request = Request(
        dataset, files, out, workers, settings or [], form, data_dir, max_rejected, batch_bytes
    )
    raise typer.Exit(run_command(request, as_json=as_json))


@app.command()
def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One of them, with all about it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Lists the data sets: their files, queries and parameters."""
    from booksan.datasets import datasets_command

    datasets_command(name, as_json=as_json)


@app.command()
def doctor(
    config: Annotated[
        str, typer.Option(help="The topology to look at: its name or its file.")
    ] = "single",
    data_dir: Annotated[
        Path | None,
        typer.Option(help="The disk to look at.", show_default="the user's state directory"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Checks this machine: versions, queues, disk, clock, limits, ports. Exit code 1 if not fit."""
    from booksan.doctor.command import doctor_command

    raise typer.Exit(doctor_command(config, data_dir, as_json=as_json))


def main() -> None:
    """Runs the command; no traceback ever reaches the user."""
    try:
        app()
    except BooksanError as error:
        _tell(f"booksan: {error}")
        sys.exit(error.exit_code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _tell(f"booksan: {where}{error.strerror or error}")
        sys.exit(NoSpace.exit_code if error.errno in NO_ROOM else 1)


def _tell(text: str) -> None:
    # Only here: a host's supervisor needs nothing that draws tables.
    from booksan_client.terminal import say

    say(text, err=True)
