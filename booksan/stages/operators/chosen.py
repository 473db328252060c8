"""Rows that pass a test for which something must be looked up in an earlier source."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from booksan.stages.graph import Params
from booksan.stages.kinds import ColumnType
from booksan.stages.operator import Piece
from booksan.stages.operators.joining import Joining
from booksan.stages.operators.top import piece_of_table
from booksan.stages.table import Table

#: From rows and what is kept for each key of the earlier source to the rows of the answer.
Choose = Callable[[pl.DataFrame, Mapping[str, list[Any]], Params], pl.DataFrame]


class Chosen(Joining):
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
        return self._table.prepared(self._choose(frame, self.known(), self.params))

    def apply_rows(self, name: str, prepared: list[tuple[Any, ...]]) -> None:
        self._table.insert(self.db, prepared)

    def final(self, cursor: str | None) -> Piece:
        return piece_of_table(self, self._table, cursor)
