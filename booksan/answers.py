"""Answers as files: csv, json or parquet, written atomically, the same bytes every time."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from booksan.errors import UsageError
from booksan.files import write_atomically
from booksan.stages.graph import ColumnType, Query

Row = tuple[Any, ...]


class Format(StrEnum):
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def existing(path: Path) -> Path:
    """The path, or the nearest directory above it that is there."""
    place = path.absolute()
    while not os.path.lexists(place):
        place = place.parent
    return place


def check_directory(path: Path) -> None:
    """Refuses a place where answers could not be written, before hours of work are spent."""
    place = existing(path)
    if not place.is_dir():
        raise UsageError(f"{path}: {place} is not a directory; name another one with --out")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: {place} is not writable; name another one with --out")


def write_answer(directory: Path, query: Query, rows: Sequence[Row], form: Format) -> Path:
    """`q1.csv` and its like; the rows come sorted."""
    path = directory / f"{query.name}.{form.value}"
    if form is Format.CSV:
        data = csv_bytes(tuple(query.columns), rows)
    elif form is Format.JSON:
        data = _json_bytes(query, rows)
    else:
        data = _parquet_bytes(query, rows)
    write_atomically(path, data)
    return path


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def native_rows(query: Query, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries in which lists are lists."""
    return [
        {
            name: json.loads(value) if kind is ColumnType.LIST else value
            for (name, kind), value in zip(query.columns.items(), row, strict=True)
        }
        for row in rows
    ]


def _json_bytes(query: Query, rows: Iterable[Row]) -> bytes:
    lines = [json.dumps(row, ensure_ascii=False) for row in native_rows(query, rows)]
    return ("[" + ",".join(f"\n  {line}" for line in lines) + "\n]\n").encode()


def _parquet_bytes(query: Query, rows: Iterable[Row]) -> bytes:
    import polars as pl

    types = {
        ColumnType.TEXT: pl.String(),
        ColumnType.INTEGER: pl.Int64(),
        ColumnType.REAL: pl.Float64(),
        ColumnType.LIST: pl.List(pl.String),
    }
    schema = {name: types[kind] for name, kind in query.columns.items()}
    buffer = io.BytesIO()
    pl.DataFrame(native_rows(query, rows), schema).write_parquet(buffer)
    return buffer.getvalue()
