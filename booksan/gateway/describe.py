"""A data set in plain data, for those who know nothing of its code."""

import math
from typing import Any

from booksan.stages.graph import Dataset, Param, Query, Source


def describe(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "version": dataset.version,
        "about": dataset.about,
        "sources": [_source(source) for source in dataset.sources],
        "params": [_param(param) for param in dataset.params],
        "queries": [_query(query) for query in dataset.queries],
    }


def _source(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "file_name": source.file_name,
        "needed": list(source.needed),
        "delimiter": source.delimiter.decode(),
        "merged": {name: list(parts) for name, parts in source.merged.items()},
    }


def _param(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "default": param.default,
        "help": param.help,
        "low": _bound(param.low),
        "high": _bound(param.high),
    }


def _bound(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _query(query: Query) -> dict[str, Any]:
    """`about` keeps its `%(parameter)s` marks: which values they get, a run decides."""
    return {
        "name": query.name,
        "about": query.about,
        "columns": {name: kind.value for name, kind in query.columns.items()},
        "order": list(query.order),
    }
