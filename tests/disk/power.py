"""Power cuts by the hundred: one recorded life, and what each of many cuts leaves of it."""

import random
import shutil
import sqlite3
import tempfile
import traceback
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from booksan.errors import BooksanError
from tests.disk.cuts import Kept, Record
from tests.disk.disk import marked_syncs, marks, mounted
from tests.disk.fuse import Change
from tests.disk.parts import Part, prepared
from tests.disk.world import DiskWorld, Hung, Lost
from tests.simulation.world import SCRATCH
from tests.support.data import Sample

EVERY: Kept = lambda place: True  # noqa: E731


@dataclass
class Counts:
    """What came of many cuts."""

    cuts: int = 0
    #: Something confirmed was not there.
    lost: int = 0
    #: Something was there twice, or contradicted itself.
    twice: int = 0
    #: Other answers than without a cut.
    wrong: int = 0
    #: No end in sight.
    hung: int = 0
    #: The first of each, in words.
    examples: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        return self.lost + self.twice + self.wrong + self.hung

    def note(self, kind: str, where: str, error: BaseException) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.examples) < 5:
            text = "".join(traceback.format_exception(error))
            self.examples.append(f"{kind} after {where}: {text}")

    def add(self, other: "Counts") -> None:
        for name in ("cuts", "lost", "twice", "wrong", "hung"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.examples += other.examples


@dataclass(frozen=True)
class Life:
    """What happened on a disk, from the first confirmation on."""

    log: Sequence[Change]
    marks: Sequence[tuple[int, list[Any]]]

    @classmethod
    def of(cls, log: Sequence[Change]) -> "Life":
        return cls(log, list(marks(log)))

    def known(self, place: int) -> list[list[Any]]:
        """What was confirmed before a cut."""
        return [words for _, words in self.marks[: bisect([at for at, _ in self.marks], place)]]

    def places(self, chance: random.Random, count: int) -> list[int]:
        first = self.marks[0][0]
        return sorted(chance.choices(range(first + 1, len(self.log) + 1), k=count))


def cuts(life: Life, seed: int, count: int, kept: Kept = EVERY) -> Iterator[tuple[int, Path]]:
    """Where the power failed, and what it left; the directory is removed afterwards."""
    record, done = Record(kept), 0
    for number, place in enumerate(life.places(random.Random(seed), count)):
        while done < place:
            record.take(life.log[done])
            done += 1
        left = Path(tempfile.mkdtemp(prefix="booksan-cut-", dir=SCRATCH))
        try:
            record.cut(random.Random(f"{seed}/{number}"), left)
            yield place, left
        finally:
            shutil.rmtree(left)


def record_part(root: Path, part: Part) -> Life:
    with mounted(root / "disk") as disk:
        with marked_syncs(disk.path):
            part.record(disk.path)
        return Life.of(disk.log(root / "log"))


def cut_part(life: Life, part: Part, seed: int, count: int, kept: Kept = EVERY) -> Counts:
    """A part of the product on what cuts leave; what is not there after all was lost."""
    found = Counts()
    for place, left in cuts(life, seed, count, kept):
        found.cuts += 1
        # The first mark says that its directory was there.
        _, *known = life.known(place)
        judged(found, place, partial(part.check, left / part.name, known))
    return found


def places(life: Life) -> Counter[str]:
    """Where the code syncs, and how often it did."""
    record = Record()
    for change in life.log:
        record.take(change)
    return record.places


def caught(cut: Callable[[int, Kept], Counts], place: str, seeds: int) -> int | None:
    """The first seed whose cuts show that this sync is needed."""
    for seed in range(seeds):
        if cut(seed, lambda one: one != place).bad:
            return seed
    return None


def record_world(root: Path, sample: Sample, seed: int) -> Life:
    with mounted(root / "disk") as disk:
        data = prepared(disk.path / "data")
        with marked_syncs(disk.path), closing(DiskWorld(data, sample, seed, disk.path)) as world:
            assert world.whole_life() == sample.answers
        return Life.of(disk.log(root / "log"))


def cut_world(life: Life, sample: Sample, seed: int, count: int, kept: Kept = EVERY) -> Counts:
    """Whole runs of a data set that go on on what cuts leave of their host."""
    found = Counts()
    for place, left in cuts(life, seed, count, kept):
        found.cuts += 1
        data, known = left / "data", life.known(place)
        with closing(DiskWorld(data, sample, seed)) as world:

            def go_on(world: DiskWorld = world, known: list[list[Any]] = known) -> None:
                assert world.whole_life(known) == sample.answers, "other answers"

            judged(found, place, go_on)
    return found


def judged(found: Counts, place: int, work: Callable[[], object], what: str = "a cut") -> None:
    try:
        work()
    except Hung as error:
        found.note("hung", f"{what} at {place}", error)
    except Lost as error:
        found.note("twice" if "twice" in str(error) else "lost", f"{what} at {place}", error)
    except (AssertionError, BooksanError, OSError, ValueError, sqlite3.Error) as error:
        found.note(
            "wrong" if "other answers" in str(error) else "lost", f"{what} at {place}", error
        )
