"""The commands `booksan bench SET` and `booksan bench sentiment`.

Imports are inside them: all other commands load this module too, and must not wait for it.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from booksan.errors import EXIT_NOT_WELL, UsageError
from booksan_client.cli import Json
from booksan_common.commands import Commands, notes, option


class Benchmarks(Commands):
    """Has a command for each data set with a baseline, made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        from booksan.bench.runner import benchmarks

        return [*benchmarks(), *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from booksan.bench.runner import benchmarks

        if cmd_name not in benchmarks():
            return super().get_command(ctx, cmd_name)
        from booksan.bench.command import command_for

        return command_for(cmd_name)


app = typer.Typer(
    cls=Benchmarks,
    no_args_is_help=True,
    help="Measures booksan next to the scripts people would write.",
)


@app.callback()
def bench() -> None:
    """Measures booksan next to the scripts people would write."""


@app.command(epilog=notes("booksan bench sentiment --reviews 5000", codes=(9,)))
def sentiment(
    reviews: Annotated[int, option("N", "Reviews to generate.", min=1)] = 5_000,
    seed: Annotated[int, option("N", "Seed of the generated data.")] = 1,
    file: Annotated[
        Path | None,
        option("FILE", "Also the first texts of this reviews file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compares booksan's polarity with TextBlob's: time for each review, and every difference."""
    from booksan.bench.report import sentiment_table
    from booksan.bench.sentiment import bench_in_fresh_process, file_texts, generated_texts
    from booksan_common.commands import print_json
    from booksan_common.terminal import PatientConsole

    if file is not None and not file.is_file():
        raise UsageError(f"{file} is no file: give a reviews file in CSV")
    reports = [bench_in_fresh_process("generated", generated_texts(reviews, seed))]
    if file is not None:
        reports.append(bench_in_fresh_process(file.name, file_texts(file, reviews)))
    agrees = not any(report.differences for report in reports)
    code = 0 if agrees else EXIT_NOT_WELL
    if as_json:
        texts = [report.to_json() for report in reports]
        print_json({"agrees": agrees, "texts": texts, "exit_code": code})
    else:
        PatientConsole().print(sentiment_table(reports))
    raise typer.Exit(code)
