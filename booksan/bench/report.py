"""What a benchmark found, as plain data: for the table, for JSON, for tests."""

import importlib.metadata
import importlib.util
import os
import platform
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from booksan.bench.agreement import Difference
from booksan.bench.measure import Measurement

MEGABYTE = 1_000_000
#: Whose versions matter.
PACKAGES = ("booksan", "duckdb", "polars", "textblob", "py3langid", "geographiclib")
#: The promise about memory: all processes together, and its growth for twice the rows.
MEMORY_LIMIT = 1_200 * MEGABYTE
GROWTH_LIMIT = 1.15


@dataclass(frozen=True)
class Data:
    dataset: str
    #: By the name of the source, in upload order.
    rows: Mapping[str, int]
    seed: int
    bytes: int

    @property
    def counted(self) -> str:
        """The source whose rows are counted in speeds: the last, which is the long one."""
        return list(self.rows)[-1]


@dataclass(frozen=True)
class Result:
    """One contestant: the median of its runs, and the highest of their memory peaks."""

    name: str
    title: str
    runs: tuple[Measurement, ...]
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    megabytes_per_second: float
    #: Of the last source.
    rows_per_second: float
    #: How many times as fast as the yardstick, and its share of the yardstick's memory.
    speed_ratio: float | None
    memory_ratio: float | None
    agrees: bool


@dataclass(frozen=True)
class Twice:
    """booksan with twice the rows of the last source."""

    rows: int
    seconds: float
    peak_bytes: int
    memory_ratio: float
    under_limit: bool
    steady: bool


@dataclass(frozen=True)
class Report:
    data: Data
    machine: dict[str, str]
    memory: str
    yardstick: str | None
    reference: str
    results: tuple[Result, ...]
    differences: tuple[Difference, ...]
    twice: Twice | None = None

    @property
    def agrees(self) -> bool:
        return not self.differences

    def to_json(self) -> dict[str, object]:
        return {"agrees": self.agrees, **asdict(self)}


def result_of(
    name: str,
    title: str,
    runs: list[Measurement],
    *,
    data: Data,
    yardstick: list[Measurement] | None,
    agrees: bool,
) -> Result:
    seconds = _seconds(runs)
    return Result(
        name=name,
        title=title,
        runs=tuple(runs),
        seconds=seconds,
        cpu_seconds=statistics.median(run.cpu_seconds for run in runs),
        peak_bytes=peak_of(runs),
        megabytes_per_second=data.bytes / MEGABYTE / seconds,
        rows_per_second=data.rows[data.counted] / seconds,
        speed_ratio=_seconds(yardstick) / seconds if yardstick else None,
        memory_ratio=_share(peak_of(runs), peak_of(yardstick)) if yardstick else None,
        agrees=agrees,
    )


def twice_of(rows: int, run: Measurement, once: list[Measurement]) -> Twice:
    ratio = _share(run.peak_bytes, peak_of(once))
    return Twice(
        rows=rows,
        seconds=run.seconds,
        peak_bytes=run.peak_bytes,
        memory_ratio=ratio,
        under_limit=max(run.peak_bytes, peak_of(once)) < MEMORY_LIMIT,
        steady=1 / GROWTH_LIMIT <= ratio <= GROWTH_LIMIT,
    )


def peak_of(runs: list[Measurement]) -> int:
    return max(run.peak_bytes for run in runs)


def _seconds(runs: list[Measurement]) -> float:
    return statistics.median(run.seconds for run in runs)


def _share(part: int, whole: int) -> float:
    """A process that ended before the first look has no peak."""
    return part / whole if whole else 0.0


def machine() -> dict[str, str]:
    """Figures mean nothing without the machine and the versions they were measured with."""
    found = {
        "system": platform.platform(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        if importlib.util.find_spec(package) is not None:
            found[package] = importlib.metadata.version(package)
    return found
