"""Answers as files: csv, json or parquet, written atomically, the same bytes every time."""

import csv
import io
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from booksan.stages.graph import Query
from booksan.stages.kinds import ColumnType
from booksan_common.files import existing as existing
from booksan_common.files import write_atomically

Row = tuple[Any, ...]

#: Rows that are made into bytes at once: about a megabyte.
CHUNK_ROWS = 10_000

_NATIVE: Mapping[ColumnType, Callable[[str], Any]] = {
    ColumnType.LIST: json.loads,
    ColumnType.DECIMAL: float,
}


class Format(StrEnum):
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def write_answer(directory: Path, query: Query, rows: Iterable[Row], form: Format) -> Path:
    """`q1.csv` and its like; the rows come sorted."""
    path = directory / f"{query.name}.{form.value}"
    write_atomically(path, lambda file: file.writelines(answer_chunks(query, rows, form)))
    return path


def answer_chunks(query: Query, rows: Iterable[Row], form: Format) -> Iterator[bytes]:
    """The bytes of an answer's file, in pieces; the rows come sorted."""
    if form is Format.CSV:
        return csv_chunks(tuple(query.columns), rows)
    if form is Format.JSON:
        return _json_chunks(query, rows)
    return iter((_parquet_bytes(query, rows),))


def csv_chunks(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    remaining = itertools.chain([header], rows)
    while portion := list(itertools.islice(remaining, CHUNK_ROWS)):
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(portion)
        yield text.getvalue().encode()


def native_rows(query: Query, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries in which lists are lists and numbers are numbers."""
    return _rows_of(query, rows, _native)


def json_rows(query: Query, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """As `native_rows`, but a number beyond all floats is the text that csv has: JSON knows no
    infinity, and null would say that nothing is there."""
    return _rows_of(query, rows, _for_json)


def _rows_of(
    query: Query, rows: Iterable[Row], made: Callable[[ColumnType, Any], Any]
) -> list[dict[str, Any]]:
    return [
        {
            name: made(kind, value)
            for (name, kind), value in zip(query.columns.items(), row, strict=True)
        }
        for row in rows
    ]


def _native(kind: ColumnType, value: Any) -> Any:
    return _NATIVE[kind](value) if kind in _NATIVE and value is not None else value


def _for_json(kind: ColumnType, value: Any) -> Any:
    native = _native(kind, value)
    beyond = isinstance(native, float) and not math.isfinite(native)
    return str(value) if beyond else native


def _json_chunks(query: Query, rows: Iterable[Row]) -> Iterator[bytes]:
    remaining = iter(rows)
    before = "["
    while portion := list(itertools.islice(remaining, CHUNK_ROWS)):
        lines = (
            json.dumps(row, ensure_ascii=False, allow_nan=False)
            for row in json_rows(query, portion)
        )
        yield (before + ",".join(f"\n  {line}" for line in lines)).encode()
        before = ","
    yield ("[\n]\n" if before == "[" else "\n]\n").encode()


def _parquet_bytes(query: Query, rows: Iterable[Row]) -> bytes:
    import polars as pl

    types = {
        ColumnType.TEXT: pl.String(),
        ColumnType.INTEGER: pl.Int64(),
        ColumnType.REAL: pl.Float64(),
        ColumnType.LIST: pl.List(pl.String),
        ColumnType.DECIMAL: pl.Float64(),
        ColumnType.DURATION: pl.String(),
    }
    schema = {name: types[kind] for name, kind in query.columns.items()}
    buffer = io.BytesIO()
    pl.DataFrame(native_rows(query, rows), schema).write_parquet(buffer)
    return buffer.getvalue()
