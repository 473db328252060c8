"""Mistakes in a declaration are found when it is loaded, not in the middle of a run."""

import re
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

import polars as pl

from booksan.errors import UsageError
from booksan.spec import HOME
from booksan.stages.graph import Dataset, Source, Stage
from booksan.stages.operator import Operator, Stateless

#: Names become queues, files, columns of tables and parts of addresses.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


def check(dataset: Dataset) -> None:
    """UsageError names the data set, the part of it, and what is wrong there."""
    try:
        _check_names(dataset)
        _check_stages(dataset)
        _check_order(dataset)
        _check_queries(dataset)
        _check_readers(dataset)
        for source in dataset.sources:
            _check_source(dataset, source)
    except UsageError as error:
        raise UsageError(f"data set {dataset.name}: {error}") from None


def _check_names(dataset: Dataset) -> None:
    if not dataset.sources or not dataset.queries:
        raise UsageError("it needs at least one source and one query")
    _check_each("", [dataset.name])
    _check_each("a source or stage", [*(s.name for s in dataset.sources), *_stage_names(dataset)])
    _check_each("a query", [query.name for query in dataset.queries])
    params = [param.name for param in dataset.params]
    if len(params) != len(set(params)):
        raise UsageError(f"a parameter is named twice: {params}")


def _stage_names(dataset: Dataset) -> list[str]:
    return [stage.name for stage in dataset.stages]


def _check_each(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} is not a name: use up to 32 lower-case letters, digits and hyphens"
            )
        if name in seen:
            raise UsageError(f"{what} is named twice: {name}")
        seen.add(name)


def _check_stages(dataset: Dataset) -> None:
    known = {*dataset.source, *dataset.stage}
    for stage in dataset.stages:
        if not isinstance(stage.operator, Operator):
            raise UsageError(f"{stage.name} has no operator but {stage.operator!r}")
        unknown = set(stage.inputs) - known
        if unknown:
            raise UsageError(
                f"stage {stage.name} reads {sorted(unknown)}, which no source or stage provides"
            )
        if HOME in stage.inputs:
            raise UsageError(f"stage {stage.name} reads {HOME}, which nothing may come after")
        if not set(stage.joins) <= set(stage.inputs) & set(dataset.source):
            raise UsageError(f"{stage.name} joins what it does not read, or what is no source")
        if isinstance(stage.operator, Stateless):
            _check_stateless(dataset, stage)


def _check_stateless(dataset: Dataset, stage: Stage) -> None:
    if len(stage.inputs) != 1 or stage.inputs[0] not in dataset.source or not stage.keyed:
        raise UsageError(f"{stage.name} is stateless and must be keyed and read one source")


def _check_order(dataset: Dataset) -> None:
    """Who reads in a ring would wait for ever."""
    try:
        TopologicalSorter({stage.name: stage.inputs for stage in dataset.stages}).prepare()
    except CycleError as error:
        ring = " -> ".join(error.args[1])
        raise UsageError(f"its stages read each other in a ring: {ring}") from None


def _check_queries(dataset: Dataset) -> None:
    stages = [query.stage for query in dataset.queries]
    for query in dataset.queries:
        if query.stage not in dataset.stage or query.stage == HOME:
            raise UsageError(f"{query.name} has no stage {query.stage}")
        if stages.count(query.stage) > 1:
            raise UsageError(f"{query.stage} can answer one query only")
        strange = set(query.order) - set(query.columns)
        if strange or not query.columns:
            raise UsageError(f"{query.name} is ordered by {sorted(strange)}, which it has not")
        try:
            query.describe(dataset.defaults)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"{query.name}: its text does not fit the parameters: {error!r}"
            ) from None


def _check_readers(dataset: Dataset) -> None:
    for stage in dataset.stages:
        if not dataset.receivers[stage.name] and stage.name != HOME:
            raise UsageError(f"nothing reads {stage.name}: give it a query or a reader")


def _check_source(dataset: Dataset, source: Source) -> None:
    """Routes a batch without rows, to see where its rows would go."""
    if not source.needed or not set(source.kinds) <= set(source.needed):
        raise UsageError(f"source {source.name}: kinds are for columns that it needs")
    if len(source.delimiter) != 1 or source.delimiter in (b'"', b"\n", b"\r"):
        raise UsageError(f"source {source.name}: {source.delimiter!r} separates nothing")
    empty = pl.DataFrame(schema=dict.fromkeys(source.needed, pl.String) | {"row": pl.UInt32})
    try:
        routed = source.route(empty, dataset.defaults)
    except Exception as error:
        # Whatever the code of a data set raises.
        text = f"{type(error).__name__}: {error}"
        raise UsageError(f"source {source.name} cannot route an empty batch: {text}") from error
    readers = {stage.name for stage in dataset.receivers[source.name]} - {HOME}
    if set(routed) != readers:
        raise UsageError(
            f"source {source.name} routes rows to {sorted(routed)}, but is read by "
            f"{sorted(readers)}"
        )
    for name, rows in routed.items():
        if rows.key is None and dataset.stage[name].keyed and not rows.every:
            raise UsageError(f"source {source.name}: rows for {name} need a key")
        if rows.key is not None and rows.key not in rows.frame.columns:
            raise UsageError(f"source {source.name}: rows for {name} have no column {rows.key}")
