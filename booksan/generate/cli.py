"""The command `booksan generate`.

All other commands load this module too: a data set is imported when it is asked for.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from booksan.errors import UsageError
from booksan.generate.generator import NAMES, Generator, generator_named
from booksan_client.cli import Json
from booksan_client.completion import beginning
from booksan_common.commands import notes, option
from booksan_common.names import nearest

#: Rows of the larger file, unless told otherwise.
ROWS = 10_000

#: A data set may have further names for its numbers of rows, which only it knows.
SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
NOTES = notes("booksan generate books --out data --rows 100000 --seed 1", codes=(6,))


def generate(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="DATASET",
            help=f"The data set: {', '.join(NAMES)}.",
            autocompletion=lambda incomplete: beginning(incomplete, NAMES),
        ),
    ],
    out: Annotated[Path, option("DIR", "For its two files.")],
    rows: Annotated[
        int | None,
        option("N", "Of the larger file.", default=f"{ROWS:,}", min=0),
    ] = None,
    seed: Annotated[int, option("N", "The same seed gives the same bytes.")] = 1,
    dirty: Annotated[bool, typer.Option("--dirty", help="With rows that are rejected.")] = False,
    as_json: Json = False,
) -> None:
    """Makes the files of a data set, in the public ones' columns and with their warts.

    The smaller file gets as many rows as go with the larger one.
    """
    generator = generator_named(name)
    numbers = _numbers(name, generator, context.args)
    if rows is not None and "rows" in numbers:
        raise UsageError("the rows are given twice: leave out --rows, or the other option for them")
    made = generator.generate(
        out,
        rows=numbers.get("rows", ROWS if rows is None else rows),
        first_rows=numbers.get("first_rows"),
        seed=seed,
        dirty=dirty,
    )
    if as_json:
        from booksan_common.commands import print_json

        files = [
            {"path": str(each.path), "rows": each.rows, "bytes": each.bytes}
            for each in made.written
        ]
        print_json({"dataset": name, "seed": seed, "files": files, "exit_code": 0})
        return
    for written in made.written:
        typer.echo(f"{written.path}: {written.rows:,} rows, {written.bytes / 1e6:.1f} MB")


def _numbers(name: str, generator: Generator, words: Sequence[str]) -> dict[str, int]:
    """The arguments in the words that the command itself does not know: `--option N`."""
    found: dict[str, int] = {}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        argument = generator.options.get(option[2:]) if option.startswith("--") else None
        if argument is None:
            raise UsageError(f"the data set {name} knows no {option}; {_known(option, generator)}")
        value = value if equals else next(rest, "")
        if not (value.isascii() and value.isdigit()):
            raise UsageError(f"{option} needs a number of rows from 0 on, not {value!r}")
        found[argument] = int(value)
    return found


def _known(option: str, generator: Generator) -> str:
    own = [f"--{name}" for name in generator.options]
    rows = f"--rows counts the {generator.rows_help}"
    return f"{nearest(option, ['--rows', *own, '--seed', '--dirty', '--out', '--json'])}; {rows}"
