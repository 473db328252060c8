"""Means of floats that are computed from texts, exact whatever order they come in."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from booksan.stages import exact
from booksan.stages.graph import Keyed
from booksan.stages.kinds import ColumnType
from booksan.stages.operator import Piece
from booksan.stages.operators.joining import Joining
from booksan.stages.table import frame_of

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
            count, partials = (row[0], exact.unpack(row[1])) if row else (0, [])
            self.db.execute(
                "INSERT OR REPLACE INTO sums VALUES (?, ?, ?)",
                (key, count + len(values), exact.pack(exact.add(partials, values))),
            )

    def final(self, cursor: str | None) -> Piece:
        rows = self.db.execute(
            "SELECT key, n, partials FROM sums WHERE key > ? ORDER BY key LIMIT ?",
            (cursor or "", self.place.piece_rows),
        ).fetchall()
        means = [(key, exact.mean(exact.unpack(data), count)) for key, count, data in rows]
        key, mean = self._names
        frame = frame_of(means, {key: ColumnType.TEXT, mean: ColumnType.REAL})
        full = len(rows) == self.place.piece_rows
        return Piece({self._to: Keyed(frame, key)}, rows[-1][0] if full else None)
