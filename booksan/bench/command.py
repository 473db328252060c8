"""The command `booksan bench SET` of one data set."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from booksan.bench.runner import YARDSTICK, BenchOptions, bench, contestants_of, size_of
from booksan.datasets import dataset_named
from booksan.errors import EXIT_NOT_WELL
from booksan.generate.generator import generator_named
from booksan_client.cli import Json
from booksan_client.completion import beginning, last_of_several
from booksan_common.commands import notes, option


def command_for(dataset: str) -> Any:
    """Its help tells of the data set's own sources and contestants, and numbers of rows."""
    known = dataset_named(dataset)
    first, second = (source.name for source in known.sources)
    params = [f"{param.name}={param.default}" for param in known.params]
    contestants = [each.name for each in contestants_of(dataset)]
    size = size_of(dataset)

    def command(
        rows: Annotated[
            int,
            option("N", f"Rows of {second} to generate.", *_names(dataset, "rows"), min=1),
        ] = size.rows,
        first_rows: Annotated[
            int | None,
            option(
                "N",
                f"Rows of {first}.",
                *_names(dataset, "first_rows"),
                default=f"as go with {second}: {size.first_rows(size.rows):,}",
                min=1,
            ),
        ] = None,
        seed: Annotated[int, option("N", "Seed of the generated data.")] = 1,
        repeat: Annotated[int, option("N", "Runs of each contestant.", min=1)] = 1,
        data: Annotated[
            Path | None,
            option("DIR", "Keep files and answers here, and reuse them."),
        ] = None,
        only: Annotated[
            str,
            option(
                "NAMES",
                f"Contestants, with commas: {', '.join(contestants)}.",
                autocompletion=lambda incomplete: last_of_several(incomplete, contestants),
            ),
        ] = "",
        settings: Annotated[
            list[str] | None,
            option(
                "NAME=VALUE",
                "A query's parameter, for all.",
                "--set",
                autocompletion=lambda incomplete: beginning(incomplete, params),
            ),
        ] = None,
        twice: Annotated[
            bool, typer.Option("--twice", help=f"Also run booksan with twice the {second}.")
        ] = False,
        as_json: Json = False,
    ) -> None:
        names = tuple(name.strip() for name in only.split(",") if name.strip())
        chosen = tuple(settings or ())
        options = BenchOptions(dataset, rows, first_rows, seed, repeat, data, names, chosen, twice)
        show(options, as_json=as_json)

    app = typer.Typer(add_completion=False)
    about = f"Runs booksan and the baselines on the same files of {dataset}, and compares them."
    example = f"booksan bench {dataset} --rows 100000 --only booksan,{YARDSTICK}"
    app.command(dataset, help=about, epilog=notes(example, codes=(3, 5, 6, 9)))(command)
    return typer.main.get_command(app)


def _names(dataset: str, argument: str) -> Iterator[str]:
    """`--rows`, and what else the data set calls it."""
    yield f"--{argument.replace('_', '-')}"
    for name, meant in generator_named(dataset).options.items():
        if meant == argument:
            yield f"--{name}"


def show(options: BenchOptions, *, as_json: bool) -> None:
    from booksan.bench.report import bench_table
    from booksan_common.commands import print_json
    from booksan_common.terminal import PatientConsole

    progress = PatientConsole(stderr=True, highlight=False)
    report = bench(options, progress=lambda text: progress.print(text, style="dim"))
    code = 0 if report.agrees else EXIT_NOT_WELL
    if as_json:
        print_json(report.to_json() | {"exit_code": code})
    else:
        PatientConsole().print(bench_table(report))
    raise typer.Exit(code)
