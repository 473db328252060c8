"""The command `booksan`."""

import ast
import os
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import booksan
from booksan.bench.cli import app as bench
from booksan.chaos.cli import chaos
from booksan.cluster import cli as cluster
from booksan.generate import cli as generate
from booksan.operate import cli as operate
from booksan.stages.dataset_errors import GROUP
from booksan_client import cli as client
from booksan_client import completion
from booksan_client.completion import Declared
from booksan_common.commands import SELDOM, SETTINGS, Commands, notes, option, version

# What data sets declare, read from their text: the shell's completion cannot wait for their code.
#
# Only what is written out is found: `Param("q1.word", "distributed", "help")` is, a name that is
# put together when it runs is not. Nothing else than completion may rely on it.


def declared() -> dict[str, Declared]:
    """All data sets by name; of one whose text cannot be read there is only the name."""
    found = {path.stem: _read(path) for path in _own_modules()}
    for point in sorted(entry_points(group=GROUP)):
        found[point.name] = _read(_module_of(point))
    return found


def _own_modules() -> Iterator[Path]:
    for path in sorted((Path(booksan.__file__).parent / "stages").glob("*.py")):
        if "\nDATASET = " in path.read_text(encoding="utf-8"):
            yield path


def _module_of(point: EntryPoint) -> Path | None:
    """By the package's own list of files; nothing is imported, and so nothing of it is run."""
    wanted = f"{point.module.replace('.', '/')}.py"
    files = (point.dist.files or []) if point.dist else []
    return next((Path(str(file.locate())) for file in files if str(file) == wanted), None)


def _read(path: Path | None) -> Declared:
    if path is None:
        return Declared({}, (), ())
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        # Whoever runs it is told; at the touch of a key there is nobody to tell.
        return Declared({}, (), ())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    params = {f"{each[0]}={each[1]}": str(each[2]) for each in _written(calls, "Param")}
    queries, stages = (
        tuple(str(each[0]) for each in _written(calls, kind)) for kind in ("Query", "Stage")
    )
    return Declared(params, queries, stages)


def _written(calls: list[ast.Call], name: str) -> Iterator[list[object]]:
    """The first three arguments of all calls of a name, each if it is written out."""
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id == name:
            found = [_value(each) for each in call.args[:3]]
            if len(found) == 3 and isinstance(found[0], str):
                yield found


def _value(argument: ast.expr) -> object:
    try:
        return ast.literal_eval(argument)
    except ValueError:
        return None


class Booksan(Commands):
    panels = {  # noqa: RUF012 - never changed
        "Get answers": ("run", "submit", "status", "results", "cancel", "list"),
        "Data sets": ("datasets", "generate"),
        "Serve": ("host", "cluster", "chaos", "doctor"),
        "Look inside": ("inspect", "letters"),
        "Measure": ("bench",),
    }


app = typer.Typer(
    cls=Booksan,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    epilog="Begin with: booksan generate books --out data\n\n"
    "and then: booksan run books data/books_data.csv data/Books_rating.csv --out answers",
)
app.command(context_settings=generate.SETTINGS, epilog=generate.NOTES)(generate.generate)
app.add_typer(bench, name="bench")
# Without a name, its commands become those of booksan: submit, status, results, cancel, list.
app.add_typer(client.app)
app.add_typer(cluster.app, name="cluster")
app.command(epilog=cluster.HOST_NOTES)(cluster.host)
app.add_typer(operate.app, name="letters")
app.command(
    epilog=notes(
        "booksan inspect",
        "booksan inspect CLIENT --sql 'select * from progress'",
        "booksan inspect CLIENT --db all.db",
    )
)(operate.inspect)
app.command(
    epilog=notes("booksan chaos --target worker,leader --for 60s", codes=(9,)),
)(chaos)


completion.declared = declared


@app.callback()
def booksan_app(
    version: Annotated[bool, version("booksan", booksan.__version__)] = False,
) -> None:
    """Answers queries over streamed CSV files, the same to the last byte whatever is killed."""


@app.command(
    epilog=notes(
        "booksan run books books_data.csv Books_rating.csv --out answers", codes=(3, 4, 5, 6)
    )
)
def run(
    dataset: client.Dataset,
    files: client.Files,
    out: client.Out,
    form: client.Format = "csv",
    queries: client.Queries = None,
    settings: client.Settings = None,
    max_rejected: client.MaxRejected = None,
    workers: Annotated[
        int | None,
        option(
            "N",
            "Processes for the costly stage.",
            default="one for each core",
            panel=SELDOM,
            min=1,
            max=64,
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        option(
            "DIR",
            "Where the work is kept until it is done.",
            default="in the user's state directory",
            panel=SELDOM,
        ),
    ] = None,
    batch_bytes: client.BatchBytes = None,
    quiet: client.Quiet = False,
    as_json: client.Json = False,
) -> None:
    """Answers the queries of a data set on this machine.

    The same command after Ctrl-C, a kill or a crash goes on where it was.
    """
    # One worker uses one thread, and so does the gateway; polars reads this on import.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from booksan.local.run import Request, run_command

    request = Request(
        dataset,
        files,
        out,
        workers,
        settings or [],
        form,
        data_dir,
        max_rejected,
        batch_bytes,
        queries or [],
        quiet,
    )
    raise typer.Exit(run_command(request, as_json=as_json))


class WithGraph(TyperCommand):
    """A command whose `--graph` may stand without a value, which no option of typer may."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [*takewhile(lambda word: word != "--", args), "--"]
        for n, (word, following) in enumerate(pairwise(words)):
            if word == "--graph" and following.startswith("-"):
                args[n] = "--graph=mermaid"
        return super().parse_args(ctx, args)


def _graphs(incomplete: str) -> list[str]:
    return completion.beginning(incomplete, ("mermaid", "svg"))


@app.command(
    cls=WithGraph,
    epilog=notes("booksan datasets", "booksan datasets flights", "booksan datasets books --graph"),
)
def datasets(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="One of them, with all about it.",
            autocompletion=completion.datasets,
        ),
    ] = None,
    graph: Annotated[
        str | None,
        option(
            "[mermaid|svg]",
            "Print its graph instead: as Mermaid text, or as a picture.",
            autocompletion=_graphs,
        ),
    ] = None,
    as_json: client.Json = False,
) -> None:
    """Lists the data sets: their files, queries and parameters."""
    from booksan.operate.datasets import datasets_command, graph_command

    if graph is None:
        datasets_command(name, as_json=as_json)
    else:
        graph_command(name, graph, as_json=as_json)


@app.command(epilog=notes("booksan doctor", "booksan doctor --config three", codes=(9,)))
def doctor(
    config: Annotated[
        str,
        option(
            "CONFIG",
            "The topology to look at: its name or its file.",
            autocompletion=cluster.topologies,
        ),
    ] = "single",
    data_dir: Annotated[
        Path | None,
        option("DIR", "The disk and the data to look at.", default="the user's state directory"),
    ] = None,
    as_json: client.Json = False,
) -> None:
    """Checks this machine: versions, queues, disk, clock, limits, ports, damaged files."""
    from booksan.doctor import doctor_command

    raise typer.Exit(doctor_command(config, data_dir, as_json=as_json))


def main() -> None:
    """Runs the command; no traceback ever reaches the user."""
    app()
