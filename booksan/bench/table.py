"""The reports as tables for a person."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from booksan.bench.report import GROWTH_LIMIT, MEGABYTE, MEMORY_LIMIT, Report, Result, Twice
from booksan.bench.sentiment import SentimentReport


def bench_table(report: Report) -> RenderableType:
    data = report.data
    sizes = [f"{number:,} {source}" for source, number in data.rows.items()]
    title = ", ".join([*sizes, f"{data.bytes / MEGABYTE:,.1f} MB"])
    # Nine columns must fit into the 80 characters of a plain terminal.
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0)
    for name in ("contestant", "answer"):
        table.add_column(name)
    memory = f"MB {report.memory}"
    speed = f"{data.counted}/s"
    for name in ("seconds", "speed", "MB/s", speed, "CPU s", memory, "memory"):
        table.add_column(name, justify="right")
    for result in report.results:
        table.add_row(*_cells(result, report.reference))
    return Group(table, *_notes(report))


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
    table = Table(title="microseconds per review", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("texts")
    for name in ("reviews", "TextBlob", "cold", "speed", "warm", "speed", "differences"):
        table.add_column(name, justify="right")
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
    return Group(table, *examples)
