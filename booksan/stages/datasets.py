"""The data sets that this booksan knows: its own, and those that other packages bring.

Its own are the modules beside this one that have a `DATASET`; other packages name theirs in the
entry point group `booksan.datasets`.
"""

import importlib
import importlib.util
import pkgutil
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import booksan.stages
from booksan.errors import UsageError
from booksan.stages.graph import Dataset

#: Of entry points that are data sets.
GROUP = "booksan.datasets"


@cache
def datasets() -> dict[str, Dataset]:
    """All of them, checked."""
    modules = (module.name for module in pkgutil.iter_modules(booksan.stages.__path__))
    found = {name: own for name in sorted(modules) if (own := _own(name)) is not None}
    for point in sorted(entry_points(group=GROUP)):
        if point.name in found:
            raise UsageError(
                f"{_where(point)} brings a data set {point.name!r}, but there is one already"
            )
        found[point.name] = _foreign(point)
    return found


@cache
def dataset_named(name: str) -> Dataset:
    """Loads no other data set than this one."""
    own = _own(name)
    if own is not None:
        return own
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _foreign(point)
    raise UsageError(f"no data set {name!r}; there is: {', '.join(datasets())}")


@cache
def _own(name: str) -> Dataset | None:
    package = booksan.stages.__name__
    if not name.isidentifier() or importlib.util.find_spec(f"{package}.{name}") is None:
        return None
    found = getattr(importlib.import_module(f"{package}.{name}"), "DATASET", None)
    return None if found is None else _checked(name, found, f"{package}.{name}")


def _foreign(point: EntryPoint) -> Dataset:
    try:
        found = point.load()
    except Exception as error:
        # Whatever the code of others raises while it is loaded.
        text = f"{type(error).__name__}: {error}"
        raise UsageError(f"{_where(point)}: {point.name!r} cannot be loaded: {text}") from error
    return _checked(point.name, found, _where(point))


def _checked(name: str, found: object, where: str) -> Dataset:
    from booksan.stages.check import check

    if not isinstance(found, Dataset):
        raise UsageError(f"{where}: {name!r} is not a Dataset but {type(found).__name__}")
    if found.name != name:
        raise UsageError(f"{where}: the data set {name!r} calls itself {found.name!r}")
    try:
        check(found)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return found


def _where(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist else f"entry point {point.value}"
