"""What all baselines share: what they declare, their arguments, exact thresholds, result files.

A baseline is a script: `python -m booksan.bench.duckdb_SET FILE ... OUT [--set k=v ...]`.
"""

import argparse
import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import duckdb

#: Threads of the engine and processes of a pool: the two cores of a small laptop.
CORES = 2
#: Digits after the point of a decimal: all that prices, distances and ratings have.
PLACES = 6

#: Options of DuckDB's `read_csv`, so that nothing is guessed.
DIALECT = """all_varchar = true, quote = '"', escape = '"', comment = ''"""
#: Another one, for records that hold texts: twice what the longest record may have.
LONG = "max_line_size = 8388608"

Row = Sequence[object]
#: Columns of each answer, by query.
Headers = Mapping[str, tuple[str, ...]]
#: The thresholds of the queries: a dataclass in which `q1_word` is `q1.word` of the command line.
ParametersT = TypeVar("ParametersT")


@dataclass(frozen=True)
class Baseline:
    """What a module `TOOL_SET` offers as its `BASELINE`."""

    title: str
    #: Modules that must be installed.
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Size:
    """How much data is generated unless the user says so; the `SIZE` of a module `duckdb_SET`."""

    #: Of the second source.
    rows: int
    #: Rows of the first source that go with so many of the second.
    first_rows: Callable[[int], int]


@dataclass(frozen=True)
class Arguments(Generic[ParametersT]):
    files: tuple[Path, ...]
    out: Path
    parameters: ParametersT


def parse_arguments(
    description: str | None, kind: type[ParametersT], sources: Sequence[str]
) -> Arguments[ParametersT]:
    parser = argparse.ArgumentParser(description=description)
    for name in (*sources, "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="k=v")
    options = parser.parse_args()
    try:
        parameters = parse_parameters(kind, options.settings)
    except ValueError as error:
        parser.error(str(error))
    files = tuple(getattr(options, name) for name in sources)
    return Arguments(files, options.out, parameters)


def parse_parameters(kind: type[ParametersT], pairs: Iterable[str]) -> ParametersT:
    """Raise ValueError for a name that is unknown or a value of the wrong kind."""
    parameters: Any = kind()
    names = {field.name.replace("_", ".", 1): field.name for field in fields(parameters)}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in names:
            raise ValueError(f"{pair!r} is not one of {', '.join(names)} with =value")
        field = names[name]
        parameters = replace(parameters, **{field: type(getattr(parameters, field))(text)})
    found: ParametersT = parameters
    return found


def connect() -> "duckdb.DuckDBPyConnection":
    import duckdb

    return duckdb.connect(config={"threads": CORES})


def forget_order(database: "duckdb.DuckDBPyConnection") -> None:
    """Of the rows of tables that are made from now on: they are made faster."""
    database.execute("SET preserve_insertion_order = false")


def fetch(database: "duckdb.DuckDBPyConnection", query: str, *values: object) -> list[Any]:
    return database.execute(query, values).fetchall()


def cut(limit: Fraction) -> Decimal:
    """The largest decimal of so many places at or below the limit.

    A decimal of as many places is above the one if and only if it is above the other, so that a
    threshold like a mean can be compared with exactly, in the engine.
    """
    return Decimal(limit.numerator * 10**PLACES // limit.denominator).scaleb(-PLACES)


def write_answers(out: Path, headers: Headers, answers: Mapping[str, Iterable[Row]]) -> None:
    for query, rows in answers.items():
        write_answer(out, query, headers[query], rows)


def write_answer(out: Path, query: str, header: Sequence[str], rows: Iterable[Row]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{query}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
