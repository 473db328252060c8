"""What is at or above a percentile of all values."""

from collections.abc import Mapping

from booksan.stages.kinds import ColumnType
from booksan.stages.operator import Piece
from booksan.stages.operators.top import Collecting, piece_of_table


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
