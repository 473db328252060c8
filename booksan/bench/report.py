"""What a benchmark found: whether the answers agree, as plain data, and as tables for a person."""

import importlib.metadata
import importlib.util
import os
import platform
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.text import Text

from booksan.bench.measure import Measurement
from booksan.bench.sentiment import SentimentReport
from booksan_common.terminal import Column, FittedTable, shown

# Do the contestants give the same answers? Byte for byte, or here is where they part.

#: A line number and its two contents, where neither side has a line.
MISSING: tuple[int, tuple[bytes | None, bytes | None]] = (1, (None, None))


@dataclass(frozen=True)
class Difference:
    """The first line in which a contestant's answer differs from the reference's."""

    contestant: str
    reference: str
    query: str
    line: int
    expected: str | None
    found: str | None

    def __str__(self) -> str:
        return (
            f"{self.query} of {self.contestant} differs from {self.reference} in line {self.line}:"
            f" expected {_shown(self.expected)}, found {_shown(self.found)}"
        )


def differences(
    queries: Iterable[str], contestant: str, out: Path, reference: str, truth: Path
) -> list[Difference]:
    found = (_difference(contestant, out, reference, truth, query) for query in queries)
    return [difference for difference in found if difference is not None]


def _difference(
    contestant: str, out: Path, reference: str, truth: Path, query: str
) -> Difference | None:
    expected, found = _lines(truth / f"{query}.csv"), _lines(out / f"{query}.csv")
    # Without a file there is no answer, not even one that equals another missing one.
    if expected == found != []:
        return None
    pairs = enumerate(zip_longest(expected, found), start=1)
    line, (left, right) = next((pair for pair in pairs if pair[1][0] != pair[1][1]), MISSING)
    return Difference(contestant, reference, query, line, _text(left), _text(right))


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n") if path.exists() else []


def _text(line: bytes | None) -> str | None:
    return None if line is None else line.decode("utf-8", errors="backslashreplace")


def _shown(line: str | None) -> str:
    return "nothing" if line is None else repr(line)


# What a benchmark found, as plain data: for the table, for JSON, for tests.

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


# The reports as tables for a person.


def bench_table(report: Report) -> RenderableType:
    data = report.data
    sizes = [f"{number:,} {source}" for source, number in data.rows.items()]
    title = ", ".join([*sizes, f"{data.bytes / MEGABYTE:,.1f} MB"])
    # Nine columns must fit into the 80 characters of a plain terminal.
    table = FittedTable(
        Column("contestant"),
        Column("answer"),
        Column("seconds", right=True),
        Column("speed", 1, right=True),
        Column("MB/s", 4, right=True),
        Column(f"{data.counted}/s", 5, right=True),
        Column("CPU s", 6, right=True),
        Column(f"MB {report.memory}", 2, right=True),
        Column("memory", 3, right=True),
        look=box.SIMPLE_HEAD,
        gap=0,
    )
    for result in report.results:
        table.add_row(*_cells(result, report.reference))
    return Group(shown(title), table, *_notes(report))


def _cells(result: Result, reference: str) -> list[str]:
    agreement = "same" if result.agrees else "DIFFER"
    return [
        result.title,
        "first" if result.name == reference and result.agrees else agreement,
        f"{result.seconds:.2f}",
        _ratio(result.speed_ratio),
        f"{result.megabytes_per_second:.2f}",
        f"{result.rows_per_second:,.0f}",
        f"{result.cpu_seconds:.2f}",
        f"{result.peak_bytes / MEGABYTE:,.0f}",
        _ratio(result.memory_ratio),
    ]


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _notes(report: Report) -> list[Text]:
    notes = []
    titles = {result.name: result.title for result in report.results}
    if report.yardstick:
        notes.append(f"speed, memory: as multiples of those of {titles[report.yardstick]}")
    if report.memory == "RSS":
        notes.append("this system has no PSS: memory shared by processes is counted in each")
    for result in report.results:
        beside = max(run.beside_bytes for run in result.runs)
        if beside:
            notes.append(f"{result.title}: the broker beside it, {beside / MEGABYTE:,.0f} MB")
    if report.twice:
        notes.append(_twice_note(report.twice, report.data.counted))
    notes += [str(difference) for difference in report.differences]
    return [Text(note) for note in notes]


def _twice_note(twice: Twice, source: str) -> str:
    limit = f"{MEMORY_LIMIT / MEGABYTE:,.0f} MB"
    return (
        f"booksan with {twice.rows:,} {source}: {twice.seconds:.2f} s,"
        f" {twice.peak_bytes / MEGABYTE:,.0f} MB, {twice.memory_ratio:.2f} times the memory"
        f" ({'under' if twice.under_limit else 'NOT under'} {limit},"
        f" {'the same' if twice.steady else 'NOT the same'} within {GROWTH_LIMIT - 1:.0%})"
    )


def sentiment_table(reports: list[SentimentReport]) -> RenderableType:
    table = FittedTable(
        Column("texts"),
        Column("reviews", 4, right=True),
        Column("TextBlob", right=True),
        Column("cold", 1, right=True),
        Column("speed", 2, right=True),
        Column("warm", 1, right=True),
        Column("speed, warm", 2, right=True),
        Column("differences", 3, right=True),
        look=box.SIMPLE_HEAD,
    )
    for report in reports:
        table.add_row(
            report.texts,
            f"{report.reviews:,}",
            f"{report.textblob_us:.1f}",
            f"{report.cold_us:.1f}",
            f"{report.cold_ratio:.1f}x",
            f"{report.warm_us:.1f}",
            f"{report.warm_ratio:.1f}x",
            str(report.differences),
        )
    examples = [Text(example) for report in reports for example in report.examples]
    return Group(shown("microseconds per review"), table, *examples)
