"""The commands `booksan bench books` and `booksan bench sentiment`.

Imports are inside them: all other commands load this module too, and must not wait for it.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from booksan.errors import UsageError

app = typer.Typer(
    no_args_is_help=True, help="Measure booksan next to the scripts people would write."
)

Reviews = Annotated[int, typer.Option(help="Reviews to generate.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of the generated data.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@app.command()
def books(
    reviews: Reviews = 300_000,
    books: Annotated[
        int | None, typer.Option(help="Books to generate; by default one for 12 reviews.", min=1)
    ] = None,
    seed: Seed = 1,
    repeat: Annotated[int, typer.Option(help="Runs of each contestant.", min=1)] = 1,
    data: Annotated[
        Path | None, typer.Option(help="Keep generated files and answers here, and reuse them.")
    ] = None,
    only: Annotated[
        str, typer.Option(help="Contestants, with commas: booksan,cluster,duckdb,polars.")
    ] = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A query's parameter, as q3.min_reviews=50.")
    ] = None,
    twice: Annotated[
        bool, typer.Option("--twice", help="Also run booksan with twice the reviews.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run booksan and the baselines on the same files, and compare answers, time and memory."""
    from rich.console import Console

    from booksan.bench.books import BenchOptions, bench_books
    from booksan.bench.table import books_table

    options = BenchOptions(
        reviews=reviews,
        books=books,
        seed=seed,
        repeat=repeat,
        data=data,
        only=tuple(name.strip() for name in only.split(",") if name.strip()),
        settings=tuple(settings or ()),
        twice=twice,
    )
    progress = Console(stderr=True, highlight=False)
    report = bench_books(options, progress=lambda text: progress.print(text, style="dim"))
    if as_json:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False, indent=2))
    else:
        Console().print(books_table(report))
    if not report.agrees:
        raise typer.Exit(1)


@app.command()
def sentiment(
    reviews: Reviews = 5_000,
    seed: Seed = 1,
    file: Annotated[
        Path | None, typer.Option(help="Also the first texts of this reviews file.")
    ] = None,
    as_json: Json = False,
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
