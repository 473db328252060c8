"""Counting in columns: how often each value came with each key, of few different ones.

Rows are kept as they come, in pieces, and the pieces are merged when they have become as many as
what was merged before. So each row is grouped a few times at most, a whole column at once, and what
is kept is as small as the number of different rows. A `Tally` counts row by row on disk instead,
and is for keys and values that are as many as the rows themselves.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from booksan.messages import Message, to_body, to_frame
from booksan.stages.graph import Keyed, Params
from booksan.stages.operator import Piece, Stateful
from booksan.stages.operators.tally import COUNT, KEY, VALUE

#: Rows that are not merged yet, at least, before they are.
UNMERGED = 200_000
#: Rows in one piece of the final output, in pieces of rows that are worked on one by one.
PIECES = 20

#: From the columns key, value and n, and the rows that were given to all shards.
GiveColumns = Callable[[pl.DataFrame, Params, list[Any]], Mapping[str, Keyed]]


class Histogram(Stateful):
    """Takes rows of `key` and `value`, and rows of the input `given`, which go to every shard."""

    schema = """
        CREATE TABLE pieces (id INTEGER PRIMARY KEY, merged INTEGER NOT NULL, n INTEGER NOT NULL,
                             body BLOB NOT NULL);
        CREATE TABLE given (row TEXT NOT NULL)
    """

    def __init__(self, give: GiveColumns, *, given: str | None = None) -> None:
        self._give = give
        self._given = given
        #: While the final output is made: everything, in the order of the keys.
        self._whole: pl.DataFrame | None = None

    def prepare(self, message: Message) -> list[tuple[str]]:
        """What comes to be counted is kept as it is, and looked at when it is merged."""
        if message.input != self._given:
            return []
        return [(json.dumps(row),) for row in to_frame(message.body).rows()]

    def apply(self, message: Message, prepared: list[tuple[str]]) -> None:
        if message.input == self._given:
            self.db.executemany("INSERT INTO given VALUES (?)", prepared)
        elif message.data["rows"]:
            self._keep(message.body, message.data["rows"], merged=False)
            self._merge_if_due()

    def final(self, cursor: str | None) -> Piece:
        """All of some keys, with about as many rows as belong into a piece of columns."""
        if self._whole is None:
            self._whole = self._merged().sort(KEY)
        rows = self._whole if cursor is None else self._whole.filter(pl.col(KEY) > cursor)
        piece = rows.head(PIECES * self.place.piece_rows)
        last = None
        if piece.height < rows.height:
            last = str(piece[KEY][-1])
            piece = rows.filter(pl.col(KEY) <= last)
        given = [json.loads(row) for (row,) in self.db.execute("SELECT row FROM given")]
        return Piece(
            self._give(piece, self.params, given), last if piece.height < rows.height else None
        )

    def _keep(self, body: bytes, rows: int, *, merged: bool) -> None:
        sql = "INSERT INTO pieces (merged, n, body) VALUES (?, ?, ?)"
        self.db.execute(sql, (merged, rows, body))

    def _merge_if_due(self) -> None:
        rows = dict(self.db.execute("SELECT merged, sum(n) FROM pieces GROUP BY merged"))
        if rows[0] > max(UNMERGED, rows.get(1, 0)):
            merged = self._merged()
            self.db.execute("DELETE FROM pieces")
            self._keep(to_body(merged), merged.height, merged=True)

    def _merged(self) -> pl.DataFrame:
        pieces = [pl.DataFrame(schema={KEY: pl.String, VALUE: pl.String, COUNT: pl.Int64})]
        for merged, body in self.db.execute("SELECT merged, body FROM pieces ORDER BY id"):
            # What was merged is this worker's own, and as large as the number of different rows.
            frame = to_frame(body, None) if merged else to_frame(body)
            counted = frame if merged else frame.with_columns(pl.lit(1, pl.Int64).alias(COUNT))
            pieces.append(counted.select(KEY, VALUE, COUNT))
        return pl.concat(pieces).group_by(KEY, VALUE).agg(pl.col(COUNT).sum())
