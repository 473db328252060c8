"""docs/reliability.md: what each part of the soak has measured, rendered as one page.

Each part writes its figures into a file of its own, `docs/reliability/<part>.json`; whatever lies
there is rendered. So parts can be run on different days and machines, and a new one needs nothing
but its file.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PARTS = DOCS / "reliability.md", DOCS / "reliability"


@dataclass(frozen=True)
class Returns:
    """Seconds until what was hit was back, over so many cases."""

    count: int
    median: float
    most: float
    worst: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Returns":
        """`most`: the 99th percentile."""
        ordered = sorted(seconds)
        most = ordered[-(-99 * len(ordered) // 100) - 1]
        return cls(len(ordered), statistics.median(ordered), most, ordered[-1])


@dataclass(frozen=True)
class Broken:
    """Something that was broken on purpose, and what it took to find it."""

    what: str
    #: Runs until it was found, and the faults that were left of the plan; None: it was not.
    runs: int | None
    faults: int | None


@dataclass(frozen=True)
class Figures:
    """One part of the page."""

    part: str
    #: A heading, and what was done, in a sentence or two.
    title: str
    about: str
    #: What was run, as it is typed.
    command: str
    runs: int = 0
    seconds: float = 0.0
    seeds: str = ""
    #: Faults that came true, by their kinds.
    faults: Mapping[str, int] = field(default_factory=dict)
    #: Seconds to come back, by what was hit.
    returns: Mapping[str, Returns] = field(default_factory=dict)
    #: Runs in which something was lost, came twice, or did not end.
    lost: int = 0
    twice: int = 0
    hung: int = 0
    broken: Sequence[Broken] = ()
    #: What else was seen, a sentence each.
    notes: Sequence[str] = ()


def write_figures(found: Figures, directory: Path = PARTS) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{found.part}.json"
    path.write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
    return path


def read_figures(path: Path) -> Figures:
    found = json.loads(path.read_text(encoding="utf-8"))
    found["returns"] = {name: Returns(**one) for name, one in found.get("returns", {}).items()}
    found["broken"] = [Broken(**one) for one in found.get("broken", ())]
    return Figures(**found)


def write_page(page: Path = PAGE, directory: Path = PARTS) -> None:
    parts = [read_figures(path) for path in sorted(directory.glob("*.json"))]
    page.write_text(render(parts), encoding="utf-8")


def render(parts: Sequence[Figures]) -> str:
    """The page, which ends with a newline."""
    blocks = [_HEAD, _table(_SUMMARY, map(_summary, (*parts, _sum(parts))))]
    for part in parts:
        blocks += _part(part)
    return "\n\n".join(blocks) + "\n"


_HEAD = """# Reliability

What was broken on purpose, how often, and what became of it. `make reliability` makes this page \
again: each part writes its figures to `docs/reliability/`, and the page is rendered from them. \
`make soak-faults MINUTES=30` runs the parts for as long as you like first.

A run is right when every answer and every rejected row is the same, to the last byte, as that of \
the oracle or of an undisturbed run, and nothing of it is left behind afterwards. A row that is \
missing counts as lost, and so does an answer that is wrong in a way that is not known; one that \
counts again counts as twice, a run without an end as hung."""
_SUMMARY = ("part", "runs", "faults", "minutes", "lost", "twice", "hung")


def _sum(parts: Sequence[Figures]) -> Figures:
    return Figures(
        "all",
        "**all**",
        "",
        "",
        runs=sum(one.runs for one in parts),
        seconds=sum(one.seconds for one in parts),
        faults={"all": sum(sum(one.faults.values()) for one in parts)},
        lost=sum(one.lost for one in parts),
        twice=sum(one.twice for one in parts),
        hung=sum(one.hung for one in parts),
    )


def _summary(part: Figures) -> list[str]:
    faults = sum(part.faults.values())
    minutes = f"{part.seconds / 60:.1f}"
    counts = (part.lost, part.twice, part.hung)
    return [part.title, f"{part.runs:,}", f"{faults:,}", minutes, *map(str, counts)]


def _part(part: Figures) -> list[str]:
    seeds = f" Seeds: {part.seeds}." if part.seeds else ""
    blocks = [f"## {part.title}", f"{part.about} `{part.command}`.{seeds}"]
    if part.faults:
        rows = [[kind, f"{count:,}"] for kind, count in sorted(part.faults.items())]
        blocks.append(_table(("fault", "times"), rows))
    if part.returns:
        titles = ("seconds to come back", "times", "median", "99 %", "worst")
        blocks.append(_table(titles, [_returns(*one) for one in sorted(part.returns.items())]))
    if part.broken:
        columns = ("broken on purpose", "found after runs", "faults that are enough")
        blocks.append(_table(columns, map(_broken, part.broken)))
    if part.notes:
        blocks.append("\n".join(f"- {note}" for note in part.notes))
    return blocks


def _returns(name: str, one: Returns) -> list[str]:
    seconds = (one.median, one.most, one.worst)
    return [name, f"{one.count:,}", *(f"{second:.1f}" for second in seconds)]


def _broken(one: Broken) -> list[str]:
    return [one.what, *("not found" if n is None else str(n) for n in (one.runs, one.faults))]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
