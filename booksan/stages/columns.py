"""Columns of numbers that came as text, and frames with the types of an answer's columns."""

import decimal
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import polars as pl

from booksan.stages.kinds import ColumnType

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


def frame_of(rows: Sequence[tuple[Any, ...]], columns: Mapping[str, ColumnType]) -> pl.DataFrame:
    types = {
        ColumnType.INTEGER: pl.Int64(),
        ColumnType.REAL: pl.Float64(),
        ColumnType.LIST: pl.List(pl.String),
    }
    schema = pl.Schema({name: types.get(kind, pl.String()) for name, kind in columns.items()})
    return pl.DataFrame(rows, schema, orient="row")
