"""Exact sums and means of floats and decimals, whatever order they come in."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

import polars as pl

from booksan.messages import Message, to_body, to_frame
from booksan.stages.columns import exact_sum, frame_of
from booksan.stages.graph import Keyed
from booksan.stages.kinds import ColumnType
from booksan.stages.operator import Piece, Stateful
from booksan.stages.operators.joining import Joining
from booksan.state.columns import KEY, ColumnStore

# Sums of floats without any rounding, so that no order of arrival changes a bit.
#
# A sum is kept as an expansion: floats that do not overlap and whose exact sum is the sum. Adding
# a value uses the error-free sum of two floats; rounding happens once, in `math.fsum`.


def add_exactly(partials: list[float], values: Iterable[float]) -> list[float]:
    """The expansion of the old sum plus all values."""
    result = list(partials)
    for value in values:
        high = value
        kept = 0
        for partial in result:
            if abs(high) < abs(partial):
                high, partial = partial, high
            total = high + partial
            low = partial - (total - high)
            if low:
                result[kept] = low
                kept += 1
            high = total
        result[kept:] = [high] if high else []
    return result


def exact_mean(partials: list[float], count: int) -> float:
    """Equal to `math.fsum(values) / count` for the values that went in."""
    return math.fsum(partials) / count


# Means of floats that are computed from texts, exact whatever order they come in.

Value = Callable[[list[str]], Sequence[float]]


class Means(Joining):
    """Takes rows of `key` and `text`; gives (key, mean) under these names to one stage."""

    def __init__(
        self, value: Value, *, to: str, names: tuple[str, ...], earlier: str | None = None
    ) -> None:
        super().__init__(earlier)
        self._value = value
        self._to = to
        self._names = names
        self._sums = ColumnStore("sums", added, SUMMED)

    def prepare_rows(self, name: str, frame: pl.DataFrame) -> tuple[bytes, int]:
        rows = self.joined(frame, KEY)
        values = self._value(rows["text"].to_list())
        sums = rows.select(KEY, partials=pl.Series(values, dtype=pl.Float64))
        sums = sums.group_by(KEY).agg(pl.len().cast(pl.Int64).alias("n"), "partials")
        return to_body(exact(sums)), sums.height

    def apply_rows(self, name: str, prepared: tuple[bytes, int]) -> None:
        self._sums.add(*prepared)

    def final(self, cursor: str | None) -> Piece:
        rows, after = self._sums.piece(
            cursor, self.place.piece_rows, lambda rows, _: rows.sort(KEY)
        )
        means = [(key, exact_mean(partials, count)) for key, count, partials in rows.iter_rows()]
        key, mean = self._names
        frame = frame_of(means, {key: ColumnType.TEXT, mean: ColumnType.REAL})
        return Piece({self._to: Keyed(frame, key)}, after)


SUMMED: Mapping[str, pl.DataType] = {"n": pl.Int64(), "partials": pl.List(pl.Float64)}


def added(sums: pl.DataFrame) -> pl.DataFrame:
    """The sums of each key added up."""
    return exact(
        sums.group_by(KEY).agg(pl.col("n").sum(), pl.col("partials").explode().drop_nulls())
    )


def exact(sums: pl.DataFrame) -> pl.DataFrame:
    """Lists of floats become expansions, which are short however many floats they stand for."""
    partials = [add_exactly([], values) for values in sums["partials"]]
    return sums.with_columns(pl.Series("partials", partials, dtype=SUMMED["partials"]))


# One exact sum over all rows of a client, for every shard of another stage.


class Total(Stateful):
    """Takes rows of `sum`, a decimal as text, and `n`; gives one such row, or none for none."""

    schema = "CREATE TABLE total (sum TEXT NOT NULL, n INTEGER NOT NULL)"

    def __init__(self, to: str) -> None:
        self._to = to

    def create(self) -> None:
        super().create()
        self.db.execute("INSERT INTO total VALUES ('0', 0)")

    def prepare(self, message: Message) -> tuple[Decimal, int]:
        frame = to_frame(message.body)
        return exact_sum(frame["sum"]), int(frame["n"].sum())

    def apply(self, message: Message, prepared: tuple[Decimal, int]) -> None:
        (before,) = self.db.execute("SELECT sum FROM total").fetchone()
        self.db.execute(
            "UPDATE total SET sum = ?, n = n + ?",
            (str(exact_sum((before, prepared[0]))), prepared[1]),
        )

    def final(self, cursor: str | None) -> Piece:
        rows = self.db.execute("SELECT sum, n FROM total WHERE n > 0").fetchall()
        frame = frame_of(rows, {"sum": ColumnType.TEXT, "n": ColumnType.INTEGER})
        return Piece({self._to: Keyed(frame, every=True)})
