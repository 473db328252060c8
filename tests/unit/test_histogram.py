"""Counting in columns is counting, however often the pieces are merged."""

import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import polars as pl
import pytest

from booksan.datasets import dataset_named
from booksan.messages import Kind, Message, to_body
from booksan.stages.graph import Keyed, Params
from booksan.stages.operator import Context
from booksan.stages.operators import Histogram, counting
from tests.unit.test_spec import make_spec

DATASET = dataset_named("flights")

BATCHES: tuple[list[tuple[str, str]], ...] = (
    [("a", "1"), ("a", "1"), ("b", "1")],
    [("a", "1"), ("a", "2")],
    [],
    [("b", "1"), ("b", "1"), ("b", "1"), ("a", "1")],
    [("c", "3"), ("a", "2")],
)


@pytest.mark.parametrize("rows_in_a_piece", [1, 2, 3, 100])
@pytest.mark.parametrize("unmerged", [0, 1, 3, 5, 100])
def test_every_row_counts_once(
    monkeypatch: pytest.MonkeyPatch, unmerged: int, rows_in_a_piece: int
) -> None:
    monkeypatch.setattr("booksan.state.columns.LOOSE_ROWS", unmerged)
    monkeypatch.setattr(counting, "PIECES", 1)
    found: list[tuple[pl.DataFrame, list[Any]]] = []

    def give(columns: pl.DataFrame, params: Params, given: list[Any]) -> Mapping[str, Keyed]:
        found.append((columns, given))
        return {}

    spec = make_spec()
    with closing(sqlite3.connect(":memory:")) as db:
        place = Context(spec, DATASET, "q4-pick", 0, piece_rows=rows_in_a_piece)
        operator = Histogram(give, given="q4-mean").at(place, db)
        operator.create()
        for seq, rows in enumerate(BATCHES):
            frame = pl.DataFrame(rows, {"key": pl.String, "value": pl.String}, orient="row")
            data = {"rows": frame.height}
            message = Message(spec, "gateway/flights", Kind.BATCH, seq, "d", data, to_body(frame))
            operator.apply(message, operator.prepare(message))
        row = to_body(pl.DataFrame({"sum": ["7.5"], "n": [3]}))
        message = Message(spec, "q4-mean/0", Kind.BATCH, 0, "d", {"rows": 1}, row)
        operator.apply(message, operator.prepare(message))
        cursor = operator.final(None).cursor
        while cursor is not None:
            cursor = operator.final(cursor).cursor
    expected = Counter(row for rows in BATCHES for row in rows)
    counted = [row for columns, _ in found for row in columns.iter_rows()]
    assert sorted(counted) == sorted((*row, n) for row, n in expected.items())
    assert len(found) == {1: 3, 2: 2, 3: 2, 100: 1}[rows_in_a_piece]
    for columns, given in found:
        assert given == [["7.5", 3]]
        # A key is never torn apart.
        others = {row[0] for other, _ in found if other is not columns for row in other.iter_rows()}
        assert others.isdisjoint(columns["key"])
