"""Exact sums and means of floats and decimals, whatever order they come in."""

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from booksan.messages import Message, to_frame
from booksan.stages.columns import exact_sum, frame_of
from booksan.stages.graph import Keyed
from booksan.stages.kinds import ColumnType
from booksan.stages.operator import Piece, Stateful
from booksan.stages.operators.joining import Joining

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


def pack_sum(partials: list[float]) -> bytes:
    return struct.pack(f"<{len(partials)}d", *partials)


def unpack_sum(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 8}d", data))


# Means of floats that are computed from texts, exact whatever order they come in.

Value = Callable[[list[str]], Sequence[float]]


class Means(Joining):
    """Takes rows of `key` and `text`; gives (key, mean) under these names to one stage."""

    schema = """
        CREATE TABLE sums (
            key TEXT PRIMARY KEY, n INTEGER NOT NULL, partials BLOB NOT NULL
        ) WITHOUT ROWID
    """

    def __init__(
        self, value: Value, *, to: str, names: tuple[str, ...], earlier: str | None = None
    ) -> None:
        super().__init__(earlier)
        self._value = value
        self._to = to
        self._names = names

    def prepare_rows(self, name: str, frame: pl.DataFrame) -> list[Any]:
        rows = self.joined(frame, "key")
        by_key: dict[str, list[float]] = {}
        values = self._value(rows["text"].to_list())
        for key, value in zip(rows["key"], values, strict=True):
            by_key.setdefault(key, []).append(value)
        return list(by_key.items())

    def apply_rows(self, name: str, prepared: list[Any]) -> None:
        for key, values in prepared:
            row = self.db.execute("SELECT n, partials FROM sums WHERE key = ?", (key,)).fetchone()
            count, partials = (row[0], unpack_sum(row[1])) if row else (0, [])
            self.db.execute(
                "INSERT OR REPLACE INTO sums VALUES (?, ?, ?)",
                (key, count + len(values), pack_sum(add_exactly(partials, values))),
            )

    def final(self, cursor: str | None) -> Piece:
        rows = self.db.execute(
            "SELECT key, n, partials FROM sums WHERE key > ? ORDER BY key LIMIT ?",
            (cursor or "", self.place.piece_rows),
        ).fetchall()
        means = [(key, exact_mean(unpack_sum(data), count)) for key, count, data in rows]
        key, mean = self._names
        frame = frame_of(means, {key: ColumnType.TEXT, mean: ColumnType.REAL})
        full = len(rows) == self.place.piece_rows
        return Piece({self._to: Keyed(frame, key)}, rows[-1][0] if full else None)


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
