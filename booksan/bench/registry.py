"""The data sets that have a benchmark, and who takes part in it.

A module `TOOL_SET` beside this one is the baseline of a data set with some tool; each data set
has one with DuckDB, by which all contestants are measured.
"""

import pkgutil
from importlib import import_module

import booksan.bench
from booksan.bench.baseline import Baseline, Size
from booksan.bench.contestants import Contestant, cluster, local, script

YARDSTICK = "duckdb"


def benchmarks() -> list[str]:
    """The data sets by name. Imports none of their modules."""
    prefix = f"{YARDSTICK}_"
    return [name.removeprefix(prefix) for name in _modules() if name.startswith(prefix)]


def size_of(dataset: str) -> Size:
    found = _offer(f"{YARDSTICK}_{dataset}", "SIZE")
    assert isinstance(found, Size)
    return found


def contestants_of(dataset: str) -> tuple[Contestant, ...]:
    """booksan first, then the baselines by name."""
    suffix = f"_{dataset}"
    baselines = [_baseline(name, suffix) for name in _modules() if name.endswith(suffix)]
    return local(dataset), cluster(dataset), *baselines


def _baseline(module: str, suffix: str) -> Contestant:
    found = _offer(module, "BASELINE")
    assert isinstance(found, Baseline)
    return script(module.removesuffix(suffix), f"{booksan.bench.__name__}.{module}", found)


def _offer(module: str, name: str) -> object:
    return getattr(import_module(f"{booksan.bench.__name__}.{module}"), name)


def _modules() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(booksan.bench.__path__))
