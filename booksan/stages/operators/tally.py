"""Counting: how often each value came with each key."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from booksan.stages.graph import Keyed, Params
from booksan.stages.operator import Piece
from booksan.stages.operators.joining import Joining

#: The columns that rows for a tally have.
KEY, VALUE, COUNT = "key", "value", "n"


#: Key, what is kept for it, value, count; without a value if the key never came.
Row = tuple[str, str | None, str | None, int]


class Group(NamedTuple):
    """All that is known of one key."""

    key: str
    #: What the join kept for it.
    kept: list[Any]
    #: (value, how often it came), in the order of the values.
    counts: list[tuple[str, int]]

    @property
    def total(self) -> int:
        return sum(n for _, n in self.counts)


#: From groups to rows for the stages after this one.
Give = Callable[[list[Group], Params], Mapping[str, Keyed]]


class Tally(Joining):
    """Takes rows of `key`, `value` and `n`; `on` is the column that is joined, if not the key.

    With a join on the key itself, keys that never came have a group too, without counts.
    """

    schema = """
        CREATE TABLE tally (
            key TEXT NOT NULL, value TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (key, value)
        ) WITHOUT ROWID
    """

    def __init__(
        self,
        give: Give,
        *,
        earlier: str | None = None,
        keep: Sequence[str] = (),
        on: str = KEY,
    ) -> None:
        super().__init__(earlier, keep)
        self._give = give
        self._on = on

    def prepare_rows(self, name: str, frame: pl.DataFrame) -> list[tuple[Any, ...]]:
        rows = self.joined(frame, self._on)
        if self._on != KEY:
            rows = rows.group_by(KEY, VALUE, maintain_order=True).agg(pl.col(COUNT).sum())
        return rows.select(KEY, VALUE, COUNT).rows()

    def apply_rows(self, name: str, prepared: list[tuple[Any, ...]]) -> None:
        self.db.executemany(
            """INSERT INTO tally VALUES (?, ?, ?)
               ON CONFLICT (key, value) DO UPDATE SET n = n + excluded.n""",
            prepared,
        )

    def final(self, cursor: str | None) -> Piece:
        """Whole groups, with about as many rows as belong into a piece."""
        groups = _Groups(self._rows(cursor or ""), self.place.piece_rows)
        # All of them at once: only then it is known whether there are more.
        found = list(groups)
        return Piece(self._give(found, self.params), found[-1].key if groups.more else None)

    def _rows(self, after: str) -> Iterator[Row]:
        if self.earlier is not None and self._on == KEY:
            sql = """SELECT key, kept, value, n FROM known LEFT JOIN tally USING (key)
                     WHERE key > ? ORDER BY key, value"""
        else:
            sql = "SELECT key, NULL, value, n FROM tally WHERE key > ? ORDER BY key, value"
        return self.db.execute(sql, (after,))


class _Groups:
    """The first groups of these rows, until they have enough rows."""

    def __init__(self, rows: Iterator[Row], enough: int) -> None:
        self._rows = rows
        self._enough = enough
        #: Whether there are groups after those.
        self.more = False

    def __iter__(self) -> Iterator[Group]:
        taken = 0
        for key, rows in itertools.groupby(self._rows, key=lambda row: row[0]):
            if taken >= self._enough:
                self.more = True
                return
            of_key = list(rows)
            kept = of_key[0][1]
            counts = [(value, n) for _, _, value, n in of_key if value is not None]
            taken += len(of_key)
            yield Group(key, json.loads(kept) if kept else [], counts)
