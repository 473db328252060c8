"""The command `booksan bench SET` of one data set."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from booksan.bench.contest import BenchOptions, bench
from booksan.bench.registry import contestants_of, size_of
from booksan.generate.registry import generator_named
from booksan.stages.datasets import dataset_named


def command_for(dataset: str) -> Any:
    """Its help tells of the data set's own sources and contestants, and numbers of rows."""
    first, second = (source.name for source in dataset_named(dataset).sources)
    contestants = ",".join(each.name for each in contestants_of(dataset))
    size = size_of(dataset)

    def command(
        rows: Annotated[
            int,
            typer.Option(*_names(dataset, "rows"), help=f"Rows of {second} to generate.", min=1),
        ] = size.rows,
        first_rows: Annotated[
            int | None,
            typer.Option(
                *_names(dataset, "first_rows"),
                help=f"Rows of {first}.",
                min=1,
                show_default=f"as go with {second}: {size.first_rows(size.rows):,}",
            ),
        ] = None,
        seed: Annotated[int, typer.Option(help="Seed of the generated data.")] = 1,
        repeat: Annotated[int, typer.Option(help="Runs of each contestant.", min=1)] = 1,
        data: Annotated[
            Path | None,
            typer.Option(help="Keep generated files and answers here, and reuse them."),
        ] = None,
        only: Annotated[str, typer.Option(help=f"Contestants, with commas: {contestants}.")] = "",
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=VALUE", help="A query's parameter, for all."),
        ] = None,
        twice: Annotated[
            bool, typer.Option("--twice", help=f"Also run booksan with twice the {second}.")
        ] = False,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print one JSON document and nothing else.")
        ] = False,
    ) -> None:
        names = tuple(name.strip() for name in only.split(",") if name.strip())
        chosen = tuple(settings or ())
        options = BenchOptions(dataset, rows, first_rows, seed, repeat, data, names, chosen, twice)
        show(options, as_json=as_json)

    app = typer.Typer(add_completion=False)
    about = f"Run booksan and the baselines on the same files of {dataset}, and compare them."
    app.command(dataset, help=about)(command)
    return typer.main.get_command(app)


def _names(dataset: str, argument: str) -> Iterator[str]:
    """`--rows`, and what else the data set calls it."""
    yield f"--{argument.replace('_', '-')}"
    for name, meant in generator_named(dataset).options.items():
        if meant == argument:
            yield f"--{name}"


def show(options: BenchOptions, *, as_json: bool) -> None:
    from rich.console import Console

    from booksan.bench.table import bench_table

    progress = Console(stderr=True, highlight=False)
    report = bench(options, progress=lambda text: progress.print(text, style="dim"))
    if as_json:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
    else:
        Console().print(bench_table(report))
    if not report.agrees:
        raise typer.Exit(1)
