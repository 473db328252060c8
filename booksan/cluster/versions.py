"""Versions of data sets: runs are finished by the one that they were begun with."""

from collections.abc import Sequence
from pathlib import Path

from booksan.cluster.unfinished import Unfinished
from booksan.errors import UsageError


def check_versions(data_dir: Path, unfinished: Sequence[Unfinished]) -> None:
    """Refuses before a worker would fail runs of another version, from which nothing heals them.

    What is computed is only kept and read, so it needs no data set.
    """
    begun: dict[tuple[str, int], set[str]] = {}
    for one in unfinished:
        if one.spec is not None and not one.computed:
            begun.setdefault((one.spec.dataset, one.spec.version), set()).add(one.client)
    for (dataset, version), clients in sorted(begun.items()):
        lack = _what_is_lacking(dataset, version)
        if lack is not None:
            raise UsageError(
                f"{data_dir} has unfinished clients ({some(sorted(clients))}) that were begun with "
                f"version {version} of {dataset}, and {lack} until they are done or cancelled, or "
                "name another --data-dir"
            )


def _what_is_lacking(dataset: str, version: int) -> str | None:
    # Loads polars, which a host without such clients does not need to wait for.
    from booksan.stages.datasets import dataset_named

    try:
        known = dataset_named(dataset).version
    except UsageError as error:
        return f"it cannot be used here ({error}); start the host with the package that brings it"
    if known == version:
        return None
    return f"this booksan has version {known}; start the host with the booksan that had it"


def some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
