"""Calls of one run that fail: what is promised then is that the run ends right."""

import errno
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from booksan.errors import BooksanError
from tests.disk.disk import Disk
from tests.disk.fuse import Fault
from tests.disk.parts import prepared
from tests.disk.power import Counts, Life, cut_world, judged
from tests.disk.world import DiskWorld, Lost
from tests.support.data import Sample

KINDS = ("create", "mkdir", "unlink", "rename", "write", "fsync", "truncate", "read")
CODES = (errno.EIO, errno.ENOSPC)
#: Calls in a row that fail, by errno: a disk stays full for a while.
LASTING = {errno.EIO: (1, 2), errno.ENOSPC: (1, 30)}


@dataclass
class Failing:
    """A disk on which one run after another meets a fault."""

    disk: Disk
    sample: Sample

    def count(self, seed: int) -> dict[str, int]:
        """Calls of each kind that a whole run makes."""
        return self.run(seed)

    def faults(self, seed: int, count: int) -> Iterator[Fault]:
        counts, chance = self.count(seed), random.Random(seed)
        kinds = [kind for kind in KINDS if counts.get(kind)]
        for number in range(count):
            kind, code = kinds[number % len(kinds)], chance.choice(CODES)
            if kind == "read":
                code = errno.EIO
            first = chance.randint(1, counts[kind])
            yield Fault(kind, first, first + chance.choice(LASTING[code]) - 1, code)

    def every(self, seed: int) -> Iterator[Fault]:
        for kind, calls in self.count(seed).items():
            for first in range(1, calls + 1) if kind in KINDS else ():
                for code in CODES[: 1 if kind == "read" else 2]:
                    yield Fault(kind, first, first, code)

    def run(self, seed: int, *faults: Fault) -> dict[str, int]:
        """The calls that a whole run made, some of which failed."""
        data = self.disk.path / "data"
        data.mkdir()
        self.disk.fail(*faults)
        try:
            with closing(self._world(data, seed)) as world:
                try:
                    if world.whole_life() != self.sample.answers:
                        raise AssertionError("other answers")
                    return self.disk.counts()
                finally:
                    self.disk.fail()
        finally:
            self.disk.fail()
            shutil.rmtree(data)

    def meet(self, found: Counts, number: int, seed: int, fault: Fault) -> None:
        found.cuts += 1
        judged(found, number, lambda: self.run(seed, fault), str(fault))

    def _world(self, data: Path, seed: int) -> DiskWorld:
        for _ in range(100):
            try:
                return DiskWorld(data, self.sample, seed)
            except BooksanError as error:
                last = error
        raise Lost(f"the spool cannot be opened: {last}")


def fail_then_cut(disk: Disk, to: Path, sample: Sample, seed: int, count: int) -> Counts:
    """A sync that fails once, and loses what it should have kept; the power fails later."""
    chance = random.Random(seed)
    data = prepared(disk.path / "data")
    with closing(DiskWorld(data, sample, seed, disk.path)) as world:
        first = chance.randint(1, 300)
        disk.fail(Fault("fsync", first, first, errno.EIO))
        assert world.whole_life() == sample.answers
        assert disk.failed()
    return cut_world(Life.of(disk.log(to)), sample, seed, count)
