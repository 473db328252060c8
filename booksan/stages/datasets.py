"""The data sets that this booksan knows."""

from functools import cache

from booksan.errors import UsageError
from booksan.stages.books import BOOKS
from booksan.stages.graph import Dataset


@cache
def datasets() -> dict[str, Dataset]:
    known = {BOOKS.name: BOOKS}
    for dataset in known.values():
        dataset.check()
    return known


def dataset_named(name: str) -> Dataset:
    try:
        return datasets()[name]
    except KeyError:
        raise UsageError(f"no data set {name!r}; there is: {', '.join(datasets())}") from None
