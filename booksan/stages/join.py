"""Joining a later source to the rows of an earlier one, by a key that may come twice there.

Of an earlier row that comes twice the first in file order counts, also when a later one would
pass the filter; so all of them are kept until the source is complete, and only then those that
did not pass go.
"""

import json
from typing import ClassVar

import polars as pl

from booksan.messages import Message, to_frame
from booksan.stages.graph import Keyed
from booksan.stages.operator import Stateful
from booksan.state.streams import Conflict


def first_rows(frame: pl.DataFrame, key: str, wanted: pl.Expr, *extra: str) -> Keyed:
    """Rows for `KeyedJoin`: the first of each key in the batch, extras only where wanted."""
    return Keyed(
        frame.unique(key, keep="first", maintain_order=True).select(
            pl.col(key).alias("key"),
            "row",
            wanted.alias("wanted"),
            *(pl.when(wanted).then(pl.col(name)).alias(name) for name in extra),
        ),
        "key",
    )


class KeyedJoin(Stateful):
    """Keeps one row for each key of the earlier source; subclasses aggregate the later one."""

    earlier: ClassVar[str]
    #: Column of the earlier source that is kept beside the key, as JSON, if any.
    extra: ClassVar[str | None] = None
    schema = """
        CREATE TABLE known (
            key TEXT PRIMARY KEY, batch INTEGER NOT NULL, row INTEGER NOT NULL,
            wanted INTEGER NOT NULL, extra TEXT
        ) WITHOUT ROWID
    """

    _keys: frozenset[str] | None = None

    def prepare_earlier(self, message: Message) -> list[tuple[object, ...]]:
        frame = to_frame(message.body)
        extra = pl.lit(None) if self.extra is None else pl.col(self.extra)
        rows = frame.select("key", pl.lit(message.seq).alias("batch"), "row", "wanted", extra)
        return [(*row[:4], None if row[4] is None else json.dumps(row[4])) for row in rows.rows()]

    def apply_earlier(self, rows: list[tuple[object, ...]]) -> None:
        self.db.executemany(
            """INSERT INTO known VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
                   batch = excluded.batch, row = excluded.row,
                   wanted = excluded.wanted, extra = excluded.extra
               WHERE (excluded.batch, excluded.row) < (batch, row)""",
            rows,
        )

    def input_complete(self, name: str) -> None:
        if name == self.earlier:
            self.db.execute("DELETE FROM known WHERE NOT wanted")

    def joined(self, frame: pl.DataFrame, key: str) -> pl.DataFrame:
        """The rows of the later source whose key is known and wanted."""
        keys = self._wanted_keys()
        found = pl.Series([value in keys for value in frame.get_column(key)], dtype=pl.Boolean)
        return frame.filter(found)

    def _wanted_keys(self) -> frozenset[str]:
        """They do not change any more once the earlier source is complete."""
        if self._keys is None:
            if not self.is_complete(self.earlier):
                raise Conflict(f"rows to join came before {self.earlier} was complete")
            self._keys = frozenset(row[0] for row in self.db.execute("SELECT key FROM known"))
        return self._keys
