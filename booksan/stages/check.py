"""Mistakes in a declaration are found when it is loaded, not in the middle of a run."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import polars as pl

from booksan.errors import UsageError
from booksan.spec import HOME
from booksan.stages.dataset_errors import Defaults, explained
from booksan.stages.graph import Dataset, Keyed, Param, Query, Source, Stage
from booksan.stages.kinds import ColumnType, FieldKind
from booksan.stages.operator import Operator, Stateless
from booksan.stages.operators.joining import Joining
from booksan_common.names import RESERVED as RESERVED_ANSWERS
from booksan_common.names import nearest

#: Names become queues, files, columns of tables and parts of addresses.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_PARAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
#: Who sends and receives besides the stages of a data set.
_RESERVED = frozenset({HOME, "gateway"})
#: The column that each batch has besides those of its file.
_ROW = "row"


def check(dataset: Dataset) -> None:
    """UsageError names the part of the data set, and what is wrong there."""
    _check_names(dataset)
    for param in dataset.params:
        _check_param(param)
    for query in dataset.queries:
        _check_query(dataset, query)
    for stage in dataset.stages:
        _check_stage(dataset, stage)
    _check_order(dataset)
    _check_readers(dataset)
    for source in dataset.sources:
        _check_source(source)
        routed(dataset, source)


def routed(dataset: Dataset, source: Source) -> Mapping[str, Keyed]:
    """What a batch without rows becomes: where its rows would go, and which columns they have."""
    empty = pl.DataFrame(schema=dict.fromkeys(source.needed, pl.String) | {_ROW: pl.UInt32})
    try:
        output = source.route(empty, Defaults(dataset.defaults))
    except Exception as error:
        # Whatever the code of a data set raises.
        text = explained(error, empty.columns)
        raise UsageError(f"source {source.name} cannot route an empty batch: {text}") from error
    readers = {stage.name for stage in dataset.receivers[source.name]} - {HOME}
    check_output(dataset, f"source {source.name} routes", output, readers)
    return output


def check_output(dataset: Dataset, who: str, output: object, readers: Collection[str]) -> None:
    """Has every reader its rows, with the column that decides where each goes?

    `who`: "source sales routes", for the error.
    """
    whose = who.rpartition(" ")[0]
    if not isinstance(output, Mapping):
        raise UsageError(
            f"{whose}: it must return rows by stage, such as {{{min(readers, default=HOME)!r}: "
            f'Keyed(frame, "key")}}, and not {_kind(output)}'
        )
    if set(output) != set(readers):
        raise UsageError(
            f"{who} rows to {sorted(map(str, output))}, but is read by {sorted(readers)}; return "
            "rows for each of these and no other, empty ones too"
        )
    for name, rows in output.items():
        if not isinstance(rows, Keyed) or not isinstance(rows.frame, pl.DataFrame):
            found = rows.frame if isinstance(rows, Keyed) else rows
            raise UsageError(
                f"{whose}: rows for {name} must be Keyed(frame, key) with a polars.DataFrame, and "
                f"not {_kind(found)}"
            )
        if rows.key is None and dataset.stage[name].keyed and not rows.every:
            raise UsageError(f"{whose}: rows for {name} need a key, as in Keyed(frame, 'key')")
        if rows.key is not None and rows.key not in rows.frame.columns:
            known = nearest(rows.key, rows.frame.columns)
            raise UsageError(f"{whose}: rows for {name} have no column {rows.key}; {known}")


def _kind(found: object) -> str:
    return "None" if found is None else type(found).__name__


def _check_names(dataset: Dataset) -> None:
    for what in ("sources", "stages", "queries", "params"):
        _check_tuple(f"its {what}", getattr(dataset, what))
    if not dataset.sources or not dataset.queries:
        raise UsageError("it needs at least one source and one query")
    if not isinstance(dataset.version, int):
        raise UsageError(f"its version must be a whole number, not {dataset.version!r}")
    _check_each("", [dataset.name])
    declared: list[Source | Stage] = [*dataset.sources, *dataset.stages[:-1]]
    for each in declared:
        if each.name in _RESERVED:
            kind = type(each).__name__.lower()
            raise UsageError(
                f"a {kind} may not be named {each.name!r}, which every data set has; use another "
                "name"
            )
    _check_each("a source or stage", [each.name for each in declared])
    _check_each("a query", [query.name for query in dataset.queries])
    params = [param.name for param in dataset.params]
    if len(params) != len(set(params)):
        raise UsageError(f"a parameter is named twice: {params}")


def _check_tuple(what: str, found: object) -> None:
    """A lone pair of brackets makes no tuple."""
    if not isinstance(found, tuple | list):
        raise UsageError(f"{what} must be a tuple, not {found!r}: write ({found!r},)")


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


def _check_param(param: Param) -> None:
    what = f"parameter {param.name}"
    if not _PARAM_NAME.fullmatch(param.name):
        raise UsageError(f"{what!r} is not a name: use letters, digits and _.-")
    default = param.default
    if isinstance(default, bool) or not isinstance(default, int | float | str):
        raise UsageError(f"{what}: its default must be a number or text, not {default!r}")
    low, high = param.bounds
    if isinstance(default, str):
        if (low, high) != (-math.inf, math.inf):
            raise UsageError(
                f"{what}: its default is the text {default!r}, but it has bounds; write a number, "
                "or take the bounds away"
            )
    elif not low <= default <= high:
        raise UsageError(f"{what}: its default {default} is not between {low:g} and {high:g}")


def _check_stage(dataset: Dataset, stage: Stage) -> None:
    known = {*dataset.source, *dataset.stage}
    if not isinstance(stage.operator, Operator):
        raise UsageError(f"{stage.name} has no operator but {stage.operator!r}")
    _check_tuple(f"the inputs of stage {stage.name}", stage.inputs)
    _check_tuple(f"what stage {stage.name} joins", stage.joins)
    unknown = sorted(set(stage.inputs) - known)
    if unknown:
        raise UsageError(
            f"stage {stage.name} reads {unknown}, which no source or stage provides; "
            f"{nearest(unknown[0], known - _RESERVED)}"
        )
    if HOME in stage.inputs:
        raise UsageError(f"stage {stage.name} reads {HOME}, which nothing may come after")
    if not set(stage.joins) <= set(stage.inputs) & set(dataset.source):
        raise UsageError(f"{stage.name} joins what it does not read, or what is no source")
    if isinstance(stage.operator, Stateless):
        _check_stateless(dataset, stage)
    if isinstance(stage.operator, Joining) and stage.operator.earlier is not None:
        _check_join(dataset, stage, stage.operator.earlier)


def _check_stateless(dataset: Dataset, stage: Stage) -> None:
    if len(stage.inputs) != 1 or stage.inputs[0] not in dataset.source or not stage.keyed:
        raise UsageError(f"{stage.name} is stateless and must be keyed and read one source")


def _check_join(dataset: Dataset, stage: Stage, earlier: str) -> None:
    """All of the earlier source must be there before rows come that are joined to it."""
    if earlier not in stage.inputs:
        raise UsageError(
            f"stage {stage.name} joins rows to {earlier!r}, which it does not read; "
            f"{nearest(earlier, stage.inputs)}"
        )
    others = [name for name in stage.inputs if name != earlier]
    if others and earlier not in stage.joins:
        raise UsageError(
            f"stage {stage.name} joins rows to {earlier}, so it needs joins=({earlier!r},)"
        )
    order = list(dataset.source)
    for name in others:
        if name in order and order.index(name) < order.index(earlier):
            raise UsageError(
                f"stage {stage.name} joins {name} to {earlier}, so the source {earlier} must be "
                f"declared before {name}"
            )


def _check_order(dataset: Dataset) -> None:
    """Who reads in a ring would wait for ever."""
    try:
        TopologicalSorter({stage.name: stage.inputs for stage in dataset.stages}).prepare()
    except CycleError as error:
        ring = " -> ".join(error.args[1])
        raise UsageError(f"its stages read each other in a ring: {ring}") from None


def _check_query(dataset: Dataset, query: Query) -> None:
    stages = [stage for stage in dataset.stage if stage != HOME]
    if query.stage not in stages:
        raise UsageError(
            f"query {query.name} has no stage {query.stage}; {nearest(query.stage, stages)}"
        )
    if query.name in RESERVED_ANSWERS:
        raise UsageError(f"a query may not be named {query.name!r}, which is another file's name")
    if [each.stage for each in dataset.queries].count(query.stage) > 1:
        raise UsageError(f"{query.stage} can answer one query only")
    wrong = [name for name, kind in query.columns.items() if not isinstance(kind, ColumnType)]
    if wrong or not query.columns:
        raise UsageError(f"query {query.name}: each column needs a ColumnType; without: {wrong}")
    _check_tuple(f"the order of query {query.name}", query.order)
    strange = sorted(set(query.order) - set(query.columns))
    if strange:
        raise UsageError(
            f"query {query.name} is ordered by {strange}, which it has not; "
            f"{nearest(strange[0], query.columns)}"
        )
    try:
        query.describe(Defaults(dataset.defaults))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"query {query.name}: its text does not fit the parameters: {explained(error)}"
        ) from None


def _check_readers(dataset: Dataset) -> None:
    for stage in dataset.stages:
        if not dataset.receivers[stage.name] and stage.name != HOME:
            raise UsageError(f"nothing reads {stage.name}: give it a query or a reader")


def _check_source(source: Source) -> None:
    what = f"source {source.name}"
    _check_tuple(f"what {what} needs", source.needed)
    if not source.needed or not set(source.kinds) <= set(source.needed):
        raise UsageError(f"{what}: kinds are for columns that it needs")
    if _ROW in source.needed:
        raise UsageError(f"{what} needs a column 'row', which is the row's place in its batch")
    if not all(isinstance(kind, FieldKind) for kind in source.kinds.values()):
        raise UsageError(f"{what}: kinds must be of FieldKind, not {dict(source.kinds)}")
    if len(source.delimiter) != 1 or source.delimiter in (b'"', b"\n", b"\r"):
        raise UsageError(f"{what}: {source.delimiter!r} separates nothing")
