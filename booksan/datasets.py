"""The data sets that this booksan knows: its own, and those that other packages bring.

Its own are the modules of `booksan.stages` that have a `DATASET`; other packages name theirs in the
entry point group `booksan.datasets`. One that cannot be used is left out, and nothing else is.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

import booksan.stages
from booksan.errors import UsageError
from booksan.stages.dataset_errors import GROUP, in_words
from booksan.stages.graph import Dataset
from booksan_common import shapes
from booksan_common.names import unknown_dataset


class _Known(NamedTuple):
    usable: dict[str, Dataset]
    broken: dict[str, str]


def datasets() -> dict[str, Dataset]:
    """All that can be used."""
    return _known().usable


def broken_datasets() -> Mapping[str, str]:
    """By name, why each of the others cannot be used, with the packages that bring it."""
    return _known().broken


@cache
def dataset_named(name: str) -> Dataset:
    """Loads no other data set than this one."""
    own = _own(name)
    if own is not None:
        return own
    points = _points().get(name)
    if points is not None:
        return _foreign(points)
    raise UsageError(unknown_dataset(name, [*datasets(), *broken_datasets()]))


def import_own() -> None:
    """The modules of its own data sets, without a look at what they declare."""
    for module in _own_modules():
        importlib.import_module(f"{booksan.stages.__name__}.{module}")


def _own_modules() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(booksan.stages.__path__))


@cache
def _known() -> _Known:
    known = _Known({name: own for name in _own_modules() if (own := _own(name)) is not None}, {})
    for name, points in _points().items():
        if name in known.usable:
            known.broken[name] = f"{_where(points)}: booksan has a data set {name!r} of its own"
            continue
        try:
            known.usable[name] = dataset_named(name)
        except UsageError as error:
            known.broken[name] = str(error)
    return known


def _points() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        found.setdefault(point.name, []).append(point)
    return found


@cache
def _own(name: str) -> Dataset | None:
    package = booksan.stages.__name__
    if not name.isidentifier() or importlib.util.find_spec(f"{package}.{name}") is None:
        return None
    found = getattr(importlib.import_module(f"{package}.{name}"), "DATASET", None)
    return None if found is None else _declared(name, found, f"{package}.{name}")


def _foreign(points: Sequence[EntryPoint]) -> Dataset:
    """Of what others have written, everything is tried out before a run meets it."""
    where = _where(points)
    if len(points) > 1:
        raise UsageError(
            f"{where} bring a data set {points[0].name!r} each, so neither is used; remove one of "
            "them"
        )
    name = points[0].name
    try:
        found = points[0].load()
    except (Exception, SystemExit) as error:
        # Whatever the code of others raises while it is loaded.
        text = in_words(error)
        raise UsageError(f"{where}: {name!r} cannot be loaded: {text}") from error
    return _declared(name, found, where, tried=True)


def _declared(name: str, found: object, where: str, *, tried: bool = False) -> Dataset:
    """`tried`: of booksan's own, the tests have found out that nothing is wrong."""
    from booksan.home import with_home

    if not isinstance(found, Dataset):
        raise UsageError(f"{where}: {name!r} is not a Dataset but {type(found).__name__}")
    if found.name != name:
        raise UsageError(f"{where}: the data set {name!r} calls itself {found.name!r}")
    try:
        whole = with_home(found)
        if tried:
            from booksan.stages.check import check
            from booksan.stages.rehearsal import rehearse

            check(whole)
            rehearse(whole)
    except UsageError as error:
        raise UsageError(f"{where}: data set {name}: {error}") from None
    except Exception as error:
        # A declaration can be wrong in ways that nobody has thought of.
        text = in_words(error)
        raise UsageError(
            f"{where}: data set {name}: its declaration cannot be read: {text}; docs/datasets.md "
            "has an example"
        ) from error
    return whole


def _where(points: Sequence[EntryPoint]) -> str:
    packages = [point.dist.name for point in points if point.dist]
    if len(packages) < len(points):
        return f"entry point {points[0].value}"
    return f"package{'s' if len(packages) > 1 else ''} {' and '.join(sorted(packages))}"


# A data set in plain data, for those who know nothing of its code.


def describe(dataset: Dataset) -> shapes.Dataset:
    """Its queries keep their `%(parameter)s` marks: which values they get, a run decides."""
    return shapes.Dataset(
        name=dataset.name,
        version=dataset.version,
        about=dataset.about,
        sources=tuple(
            shapes.Source(
                each.name, each.file_name, each.needed, each.delimiter.decode(), each.merged
            )
            for each in dataset.sources
        ),
        params=dataset.params,
        queries=tuple(
            shapes.Query(
                each.name,
                each.about,
                {name: kind.value for name, kind in each.columns.items()},
                each.order,
            )
            for each in dataset.queries
        ),
    )


def warn_of_broken() -> None:
    """Names the data sets of other packages that cannot be used; all others can."""
    from booksan_common.terminal import say

    for name, reason in broken_datasets().items():
        say(f"booksan: warning: the data set {name} is left out: {reason}", err=True)
