"""Columns of numbers that came as text, and tables whose columns have an answer's types."""

import decimal
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import polars as pl

from booksan.stages.kinds import ColumnType

if TYPE_CHECKING:
    import polars as pl

    from booksan.stages.graph import Query


# Columns of decimals and whole numbers that came as text: exact, and yet not row by row.

#: Decimals with as many digits as they need; what would be rounded raises.
EXACT = decimal.Context(
    prec=100_000,
    Emin=-(10**6),
    Emax=10**6,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow, decimal.Subnormal],
)


def threshold(value: float | str) -> Fraction:
    """A parameter in exact comparisons is the decimal that it is written as: 0.3 is 3/10."""
    return Fraction(str(value))


def compare(texts: pl.Series, limit: Fraction) -> pl.Series:
    """-1, 0 or 1 for numbers below, at or above the limit; null for an empty text."""
    nearest = texts.str.strip_chars(" ").cast(pl.Float64, strict=False)
    near = rounded(limit)
    found = (nearest > near).cast(pl.Int8) - (nearest < near).cast(pl.Int8)
    # Rounding keeps the order, so only a number that rounds to the limit must be looked at.
    doubtful = (texts != "") & (found.is_null() | (found == 0).fill_null(False))
    if not doubtful.any():
        return found
    exact = [
        _sign(Fraction(text.strip(" ")) - limit) if doubt else sure
        for text, doubt, sure in zip(texts, doubtful, found, strict=True)
    ]
    return pl.Series(texts.name, exact, dtype=pl.Int8)


def over(texts: pl.Series, limit: Fraction) -> pl.Series:
    """Which numbers are greater than the limit; an empty text is none."""
    return (compare(texts, limit) == 1).fill_null(False)


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


def whole(texts: pl.Series) -> pl.Series:
    """The values of whole numbers, null for an empty text: `10`, `+10.0` and `1e1` are the same."""
    numbers = texts.str.strip_chars(" ").cast(pl.Int64, strict=False)
    odd = (texts != "") & numbers.is_null()
    if not odd.any():
        return numbers
    exact = [
        int(Fraction(text.strip(" "))) if strange else number
        for text, strange, number in zip(texts, odd, numbers, strict=True)
    ]
    return pl.Series(texts.name, exact, dtype=pl.Int64)


#: All usual amounts of money are from 0 on and below this, in 1/10000.
USUAL_BOUND = 10**10


def ten_thousandths(texts: pl.Series) -> pl.Series:
    """The numbers in 1/10000, as integers; null for those that are not usual amounts of money.

    A float has digits enough for six before the point and four after it: rounding is exact.
    """
    usual = texts.str.contains(r"^ *[0-9]{1,6}(?:\.[0-9]{1,4})? *$")
    amounts = texts.set(~usual, None).str.strip_chars(" ").cast(pl.Float64)
    return (amounts * 10_000).round().cast(pl.Int64)


def rounded(value: Fraction) -> float:
    """The nearest float; beyond all floats it is infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def exact_sum(numbers: Iterable[str | Decimal]) -> Decimal:
    """For few; a column has `exact_sum_of`."""
    with decimal.localcontext(EXACT):
        return sum(map(Decimal, numbers), Decimal(0))


def exact_sum_of(texts: pl.Series) -> Decimal:
    amounts = ten_thousandths(texts)
    usual = Decimal(int(amounts.sum())).scaleb(-4, EXACT)
    return exact_sum([usual, *texts.filter(amounts.is_null())])


# A table whose columns have the types of an answer's, and are sorted as an answer's are.

Row = tuple[Any, ...]


class Table:
    def __init__(self, name: str, columns: Mapping[str, ColumnType]) -> None:
        self.name = name
        self.columns = columns
        self._lists = [i for i, kind in enumerate(columns.values()) if kind is ColumnType.LIST]
        self._valued = [(i, kind) for i, kind in enumerate(columns.values()) if kind.by_value]

    def create(self, db: sqlite3.Connection) -> None:
        kinds = self.columns.items()
        columns = [f'"{name}" {kind.sql}' for name, kind in kinds]
        columns += [f"{_value_of(name)} BLOB" for name, kind in kinds if kind.by_value]
        db.execute(f'CREATE TABLE "{self.name}" ({", ".join(columns)})')

    def prepared(self, frame: "pl.DataFrame") -> list[Row]:
        """The rows as the table keeps them: lists in JSON, and what texts are sorted by."""
        rows = frame.select(*self.columns).rows()
        if not self._lists and not self._valued:
            return rows
        return [self._kept(row) for row in rows]

    def insert(self, db: sqlite3.Connection, rows: Sequence[Row]) -> None:
        marks = ", ".join("?" for _ in range(len(self.columns) + len(self._valued)))
        db.executemany(f'INSERT INTO "{self.name}" VALUES ({marks})', rows)

    def order(self, names: Iterable[str]) -> str:
        """For ORDER BY. A name after `-` is descending; the texts of equal values come last."""
        terms = [self._term(name) for name in names]
        terms += [f'"{name}"' for name, kind in self.columns.items() if kind.by_value]
        return ", ".join(terms)

    def frame(self, rows: Sequence[Row]) -> "pl.DataFrame":
        """Rows of the table, as they were before they were prepared."""
        values = [self._native(row) for row in rows] if self._lists else rows
        return frame_of(values, self.columns)

    @property
    def selected(self) -> str:
        return ", ".join(f'"{name}"' for name in self.columns)

    def _term(self, name: str) -> str:
        plain = name.removeprefix("-")
        column = _value_of(plain) if self.columns[plain].by_value else f'"{plain}"'
        return f"{column} DESC" if name.startswith("-") else column

    def _kept(self, row: Row) -> Row:
        values = list(row)
        for place in self._lists:
            values[place] = json.dumps(values[place], ensure_ascii=False)
        return (*values, *(kind.sort_key(row[place]) for place, kind in self._valued))

    def _native(self, row: Row) -> Row:
        values = list(row)
        for place in self._lists:
            values[place] = json.loads(values[place])
        return tuple(values)


def answer_table(query: "Query") -> Table:
    """Where the home keeps an answer."""
    return Table(query.name, query.columns)


def frame_of(rows: Sequence[Row], columns: Mapping[str, ColumnType]) -> "pl.DataFrame":
    import polars as pl

    types = {
        ColumnType.INTEGER: pl.Int64(),
        ColumnType.REAL: pl.Float64(),
        ColumnType.LIST: pl.List(pl.String),
    }
    schema = pl.Schema({name: types.get(kind, pl.String()) for name, kind in columns.items()})
    return pl.DataFrame(rows, schema, orient="row")


def _value_of(name: str) -> str:
    return f'"{name} by value"'
