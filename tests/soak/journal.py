"""Rounds that were done, one line of JSON each: a soak that was stopped goes on behind them."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Round:
    """What one round has come to. Rounds of a part are numbered from 0."""

    part: str
    number: int
    seconds: float
    runs: int
    faults: Mapping[str, int] = field(default_factory=dict)
    #: Seconds to come back, by what was hit.
    returns: Mapping[str, Sequence[float]] = field(default_factory=dict)
    #: How often a run ended so: right, failed in order, wrong, hung.
    outcomes: Mapping[str, int] = field(default_factory=dict)
    #: What must not have happened, with all that it takes to see it again.
    findings: Sequence[str] = ()
    #: Numbers of its own.
    figures: Mapping[str, float | None] = field(default_factory=dict)
    name: str = ""


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def rounds(self, part: str) -> list[Round]:
        return [one for one in self._read() if one.part == part]

    def next_number(self, part: str) -> int:
        return max((one.number for one in self.rounds(part)), default=-1) + 1

    def add(self, done: Round) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(done)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> Iterator[Round]:
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                yield Round(**json.loads(line))


def added(rounds: Sequence[Round], what: str) -> dict[str, int]:
    """The sum of their faults, or of their outcomes."""
    total: Counter[str] = Counter()
    for one in rounds:
        total.update(getattr(one, what))
    return dict(total)


def gathered(rounds: Sequence[Round]) -> dict[str, list[float]]:
    """All times to come back."""
    found: dict[str, list[float]] = {}
    for one in rounds:
        for name, seconds in one.returns.items():
            found.setdefault(name, []).extend(seconds)
    return {name: seconds for name, seconds in found.items() if seconds}
