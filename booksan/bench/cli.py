"""The commands `booksan bench SET` and `booksan bench sentiment`.

Imports are inside them: all other commands load this module too, and must not wait for it.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from booksan.errors import UsageError


class Benchmarks(TyperGroup):
    """Has a command for each data set with a baseline, made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        from booksan.bench.registry import benchmarks

        return [*benchmarks(), *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from booksan.bench.registry import benchmarks

        if cmd_name not in benchmarks():
            return super().get_command(ctx, cmd_name)
        from booksan.bench.command import command_for

        return command_for(cmd_name)


app = typer.Typer(
    cls=Benchmarks,
    no_args_is_help=True,
    help="Measure booksan next to the scripts people would write.",
)


@app.callback()
def bench() -> None:
    """Measure booksan next to the scripts people would write."""


@app.command()
def sentiment(
    reviews: Annotated[int, typer.Option(help="Reviews to generate.", min=1)] = 5_000,
    seed: Annotated[int, typer.Option(help="Seed of the generated data.")] = 1,
    file: Annotated[
        Path | None, typer.Option(help="Also the first texts of this reviews file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document and nothing else.")
    ] = False,
) -> None:
    """Compare booksan's polarity with TextBlob's: time for each review, and every difference."""
    from rich.console import Console

    from booksan.bench.sentiment import bench_in_fresh_process, file_texts, generated_texts
    from booksan.bench.table import sentiment_table

    if file is not None and not file.is_file():
        raise UsageError(f"{file} is no file: give a reviews file in CSV")
    reports = [bench_in_fresh_process("generated", generated_texts(reviews, seed))]
    if file is not None:
        reports.append(bench_in_fresh_process(file.name, file_texts(file, reviews)))
    agrees = not any(report.differences for report in reports)
    if as_json:
        document = {"agrees": agrees, "texts": [report.to_json() for report in reports]}
        typer.echo(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        Console().print(sentiment_table(reports))
    if not agrees:
        raise typer.Exit(1)
