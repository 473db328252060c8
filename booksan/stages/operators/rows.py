"""Tables of rows, and what passes rows on: those that pass a test, the best, a percentile."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from booksan.messages import Message, to_frame
from booksan.spec import HOME
from booksan.stages.columns import frame_of
from booksan.stages.graph import Keyed, Params, Query
from booksan.stages.kinds import ColumnType
from booksan.stages.operator import Matches, Piece, Stateful, Stateless
from booksan.stages.operators.joining import Joining

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

    def prepared(self, frame: pl.DataFrame) -> list[Row]:
        """The rows as the table keeps them: lists in JSON, and what texts are sorted by."""
        rows = frame.select(*self.columns).rows()
        if not self._lists and not self._valued:
            return rows
        return [self._kept(row) for row in rows]

    def insert(self, db: sqlite3.Connection, rows: Sequence[Row]) -> None:
        marks = ", ".join("?" for _ in range(len(self.columns) + len(self._valued)))
        db.executemany(f'INSERT INTO "{self.name}" VALUES ({marks})', rows)

    def rows(
        self, db: sqlite3.Connection, names: Iterable[str], limit: int = -1, offset: int = 0
    ) -> Iterator[Row]:
        """One by one, in an order; all or a part of them."""
        order = self.order(names)
        sql = f'SELECT {self.selected} FROM "{self.name}" ORDER BY {order} LIMIT ? OFFSET ?'
        return db.execute(sql, (limit, offset))

    def count(self, db: sqlite3.Connection) -> int:
        """Of a table to which rows are only ever added: the last number counts them."""
        row = db.execute(f'SELECT max(rowid) FROM "{self.name}"').fetchone()
        return row[0] or 0

    def order(self, names: Iterable[str]) -> str:
        """For ORDER BY. A name after `-` is descending; the texts of equal values come last."""
        terms = [self._term(name) for name in names]
        terms += [f'"{name}"' for name, kind in self.columns.items() if kind.by_value]
        return ", ".join(terms)

    def frame(self, rows: Sequence[Row]) -> pl.DataFrame:
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


def answer_table(query: Query) -> Table:
    """Where the home keeps an answer."""
    return Table(query.name, query.columns)


def _value_of(name: str) -> str:
    return f'"{name} by value"'


# Rows of a source that pass go straight on.

Select = Callable[[pl.DataFrame, Params], pl.DataFrame]


class Filter(Stateless):
    """The rows that the function makes of a batch's rows are the answer's."""

    def __init__(self, select: Select) -> None:
        self._select = select

    def transform(self, message: Message) -> Mapping[str, Keyed]:
        return {HOME: Keyed(self._select(to_frame(message.body), self.params))}


# The best: of all rows, with their ranks, or of the rows of each key.


class Collecting(Stateful):
    """Keeps rows in a table."""

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        self.table = Table("rows", columns)

    def create(self) -> None:
        self.table.create(self.db)
        super().create()

    def prepare(self, message: Message) -> list[tuple[Any, ...]]:
        return self.table.prepared(to_frame(message.body))

    def apply(self, message: Message, prepared: list[tuple[Any, ...]]) -> None:
        self.table.insert(self.db, prepared)


def piece_of_table(
    operator: Stateful, table: Table, cursor: str | None, where: str = "TRUE"
) -> Piece:
    """The rows of a table that were put in after the cursor's, for the answer."""
    limit = operator.place.piece_rows
    rows = operator.db.execute(
        f'SELECT rowid, {table.selected} FROM "{table.name}" WHERE rowid > ? AND {where} '
        "ORDER BY rowid LIMIT ?",
        (int(cursor or 0), limit),
    ).fetchall()
    last = str(rows[-1][0]) if len(rows) == limit else None
    return Piece({HOME: Keyed(table.frame([row[1:] for row in rows]))}, last)


class Top(Collecting):
    """The first rows in an order (`-` before a column: descending), with their `rank`.

    `number` is the parameter that says how many.
    """

    def __init__(
        self, number: str, columns: Mapping[str, ColumnType], order: Sequence[str]
    ) -> None:
        super().__init__(columns)
        self._number = number
        self._order = tuple(order)

    def final(self, cursor: str | None) -> Piece:
        # Ranks are numbers, so the cursor of a long list is one too.
        done = int(cursor or 0)
        limit = min(self.place.piece_rows, int(self.params[self._number]) - done)
        rows = list(self.table.rows(self.db, self._order, limit, done))
        ranks = pl.Series("rank", range(done + 1, done + len(rows) + 1), dtype=pl.Int64)
        frame = self.table.frame(rows).insert_column(0, ranks)
        full = len(rows) == self.place.piece_rows
        return Piece({HOME: Keyed(frame)}, str(done + len(rows)) if full else None)


class Leaders(Collecting):
    """Of the rows of each key the first in an order; no more of them are ever kept."""

    def __init__(
        self, number: str, key: str, columns: Mapping[str, ColumnType], order: Sequence[str]
    ) -> None:
        super().__init__(columns)
        self.schema = f'CREATE INDEX by_key ON rows ("{key}")'
        self._number = number
        self._key = key
        self._place = list(columns).index(key)
        self._order = tuple(order)

    def apply(self, message: Message, prepared: list[tuple[Any, ...]]) -> None:
        super().apply(message, prepared)
        order = self.table.order(self._order)
        self.db.executemany(
            f"""DELETE FROM rows WHERE rowid IN (
                    SELECT rowid FROM rows WHERE "{self._key}" = ?
                    ORDER BY {order} LIMIT -1 OFFSET ?)""",
            [(key, self.params[self._number]) for key in {row[self._place] for row in prepared}],
        )

    def final(self, cursor: str | None) -> Piece:
        return piece_of_table(self, self.table, cursor)


# Rows that pass a test for which something must be looked up in an earlier source.

#: From rows and what is kept for each key of the earlier source to the rows of the answer.
Choose = Callable[[pl.DataFrame, Mapping[str, list[Any]], Params], pl.DataFrame]


class JoinFilter(Joining):
    def __init__(
        self,
        choose: Choose,
        columns: Mapping[str, ColumnType],
        *,
        earlier: str,
        keep: Sequence[str] = (),
    ) -> None:
        super().__init__(earlier, keep)
        self._choose = choose
        self._table = Table("rows", columns)

    def create(self) -> None:
        super().create()
        self._table.create(self.db)

    def prepare_rows(self, name: str, frame: pl.DataFrame) -> list[tuple[Any, ...]]:
        return self._table.prepared(self._choose(frame, self.kept, self.params))

    def apply_rows(self, name: str, prepared: list[tuple[Any, ...]]) -> None:
        self._table.insert(self.db, prepared)

    def matches(self, name: str) -> Matches | None:
        """Only `choose` knows what it found."""
        return None

    def final(self, cursor: str | None) -> Piece:
        return piece_of_table(self, self._table, cursor)


# What is at or above a percentile of all values.


class Percentile(Collecting):
    """Keeps one row for each key; `of` is the column, `percent` the parameter."""

    def __init__(self, percent: str, columns: Mapping[str, ColumnType], of: str) -> None:
        super().__init__(columns)
        self._percent = percent
        self._of = of

    def final(self, cursor: str | None) -> Piece:
        return piece_of_table(self, self.table, cursor, f'"{self._of}" >= {self._cut()!r}')

    def _cut(self) -> float:
        import numpy as np

        values = [row[0] for row in self.db.execute(f'SELECT "{self._of}" FROM rows')]
        return float(np.percentile(values, float(self.params[self._percent]))) if values else 0.0
