"""A table whose columns have the types of an answer's, and are sorted as an answer's are."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from booksan.stages.kinds import ColumnType

if TYPE_CHECKING:
    import polars as pl

    from booksan.stages.graph import Query

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
