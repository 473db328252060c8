"""Measures the figures in docs/benchmarks.md, and writes them there.

`make figures` runs it, on a machine where nothing else runs: some minutes. They stand there and
nowhere else, so that no two pages can contradict each other.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from booksan.bench.report import MEGABYTE
from booksan.bench.runner import YARDSTICK, benchmarks

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- make figures: begin -->\n", "<!-- make figures: end -->\n"
#: Runs of each contestant; the table has their median.
REPEAT = int(os.environ.get("REPEAT", "3"))
#: Rows of a run in which nearly all is start and end.
SMALL = 1_000

COLUMNS = ("files", "booksan, s", "baseline, s", "ratio", "booksan, CPU s", "baseline, CPU s", "MB")


def measured(dataset: str, *options: str) -> dict[str, Any]:
    """The report of one benchmark; its data is generated anew and removed at the end."""
    command = ("bench", dataset, "--only", f"booksan,{YARDSTICK}", "--json", *options)
    with tempfile.TemporaryDirectory() as data:
        done = subprocess.run(
            [sys.executable, "-m", "booksan", *command, "--data", data, "--repeat", str(REPEAT)],
            stdout=subprocess.PIPE,
            check=True,
        )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def cells(report: dict[str, Any]) -> Iterator[str]:
    data = report["data"]
    ours, theirs = (
        next(one for one in report["results"] if one["name"] == name)
        for name in ("booksan", YARDSTICK)
    )
    rows = ", ".join(f"{count:,} {source}" for source, count in data["rows"].items())
    yield f"{data['dataset']}: {rows}, {data['bytes'] / MEGABYTE:,.1f} MB"
    yield f"{ours['seconds']:.2f}"
    yield f"{theirs['seconds']:.2f}"
    yield f"{ours['seconds'] / theirs['seconds']:.2f}"
    yield f"{ours['cpu_seconds']:.1f}"
    yield f"{theirs['cpu_seconds']:.1f}"
    yield f"{ours['peak_bytes'] / MEGABYTE:,.0f}"


def page(reports: list[dict[str, Any]]) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in reports[0]["machine"].items())
    table = [COLUMNS, ("---",) * len(COLUMNS), *map(cells, reports)]
    return "\n".join(
        [
            f"Measured by `make figures` on {datetime.now(UTC):%Y-%m-%d}: {machine}. Medians of "
            f"{REPEAT} runs; all answers agreed byte for byte. The ratio is booksan's time as a",
            "multiple of the baseline's in the same run, MB the most that all processes of a run "
            f"took together ({reports[0]['memory']}).",
            "",
            *(f"| {' | '.join(row)} |" for row in table),
            "",
        ]
    )


def main() -> None:
    sets = benchmarks()
    reports = [measured(name) for name in sets]
    reports += [measured(name, "--rows", str(SMALL)) for name in sets]
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{page(reports)}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
