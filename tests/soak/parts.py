"""The parts of the soak: what a round of each does, and how its figures are told."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from booksan.errors import BooksanError
from tests.simulation.faults.mutations import MUTATIONS, broken
from tests.simulation.faults.search import search
from tests.soak.figures import Broken, Figures, Returns
from tests.soak.journal import Round, added, gathered

#: Seeds of one round of the simulation, and the first of all.
CHUNK = 25
FIRST_SEED = 100_000
#: Seeds of a search for what is broken.
SEARCHED = 300


class Part(ABC):
    """Rounds of one kind. What is costly to begin is begun with the first and kept."""

    name: str
    title: str
    about: str
    #: Of the time, beside the other parts.
    share: float = 1.0
    #: Rounds that there are; None: as many as one likes.
    rounds: int | None = None

    def __init__(self, root: Path, stack: ExitStack) -> None:
        """`root`: where it may keep files; `stack`: what ends with the soak."""
        self.root = root / self.name
        self.root.mkdir()
        #: A round has left behind what it should not.
        self.over = False
        self.stack = stack

    @property
    def lacks(self) -> str | None:
        """Why it cannot be run here."""
        return None

    def round(self, number: int) -> Round:
        began = time.monotonic()
        try:
            found = self.run(number)
        except (AssertionError, BooksanError) as error:
            # What is left of it would disturb all that follow.
            self.over = True
            finding = f"round {number}: {error}"
            found = {"runs": 1, "outcomes": {"hung": 1}, "findings": [finding]}
        return Round(self.name, number, round(time.monotonic() - began, 3), **found)

    @abstractmethod
    def run(self, number: int) -> dict[str, Any]:
        """One round: what its line in the journal has besides its time."""

    @classmethod
    def figures(cls, rounds: Sequence[Round]) -> Figures:
        outcomes = added(rounds, "outcomes")
        return Figures(
            cls.name,
            cls.title,
            cls.about,
            f"python -m tests.soak --parts {cls.name} --minutes N",
            runs=sum(one.runs for one in rounds),
            seconds=round(sum(one.seconds for one in rounds), 1),
            seeds=cls.seeds(rounds),
            faults=added(rounds, "faults"),
            returns={name: Returns.of(found) for name, found in gathered(rounds).items()},
            lost=outcomes.get("lost", 0) + outcomes.get("wrong", 0),
            twice=outcomes.get("twice", 0),
            hung=outcomes.get("hung", 0),
            broken=cls.broken(rounds),
            notes=[*cls.notes(rounds), *(note for one in rounds for note in one.findings)],
        )

    @classmethod
    def seeds(cls, rounds: Sequence[Round]) -> str:
        last = max(one.number for one in rounds)
        return f"0 to {last}" if last else "0"

    @classmethod
    def broken(cls, rounds: Sequence[Round]) -> Sequence[Broken]:
        return ()

    @classmethod
    def notes(cls, rounds: Sequence[Round]) -> Sequence[str]:
        return ()


class Simulation(Part):
    name = "simulation"
    title = "Simulated clusters"
    about = (
        "The real gateway, workers and databases of one or two clients of any data set, in one "
        "thread, with queues in memory that keep no order. Each run has up to 24 faults of "
        "fourteen kinds at once (`tests/simulation/faults`); times are those of a clock that goes "
        "on only while nothing moves."
    )

    def run(self, number: int) -> dict[str, Any]:
        first = FIRST_SEED + CHUNK * number
        found = search(range(first, first + CHUNK), findings=CHUNK)
        return {
            "runs": found.trials,
            "faults": {str(kind): count for kind, count in found.applied.items()},
            "returns": {"what was lost": found.stood},
            "outcomes": {str(outcome): count for outcome, count in found.outcomes.items()},
            "findings": [str(finding) for finding in found.findings],
        }

    @classmethod
    def seeds(cls, rounds: Sequence[Round]) -> str:
        last = FIRST_SEED + CHUNK * (max(one.number for one in rounds) + 1) - 1
        return f"{FIRST_SEED} to {last}"

    @classmethod
    def notes(cls, rounds: Sequence[Round]) -> Sequence[str]:
        failed = added(rounds, "outcomes").get("failed in order", 0)
        return [
            f"{failed} runs failed with the reason that is promised: a join had lost its disk, and "
            "with it what it was to join."
        ]


class BrokenOnPurpose(Part):
    name = "broken"
    title = "Broken on purpose"
    about = (
        "Exactly-once is broken in the code, one way after the other; the same search must find it "
        "and shrink the plan to the fewest faults that still show it."
    )
    rounds = len(MUTATIONS)

    def run(self, number: int) -> dict[str, Any]:
        name = list(MUTATIONS)[number]
        with broken(name):
            found = search(range(SEARCHED))
        enough = [float(len(one.plan.faults)) for one in found.findings]
        figures: Mapping[str, float | None] = {
            "runs": float(found.trials) if enough else None,
            "faults": enough[0] if enough else None,
        }
        missed = [] if enough else [f"{name} is not found in {SEARCHED} seeds"]
        return {
            "name": name,
            "runs": found.trials,
            "faults": {},
            "figures": figures,
            "findings": missed,
        }

    @classmethod
    def seeds(cls, rounds: Sequence[Round]) -> str:
        return f"from 0 up to {SEARCHED - 1}, until it is found"

    @classmethod
    def broken(cls, rounds: Sequence[Round]) -> Sequence[Broken]:
        return [Broken(one.name, *map(_whole, one.figures.values())) for one in rounds]


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
