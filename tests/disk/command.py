"""`booksan run` with all its processes on a disk that fails, or whose power is cut."""

import errno
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.disk.disk import Disk, mounted
from tests.disk.fuse import Fault
from tests.disk.power import Counts, Life, cuts, judged
from tests.simulation.world import SCRATCH
from tests.support.command import Ended, Place
from tests.support.inputs import Inputs

NO_SPACE = 6
#: What a run may end with that the disk does not let go on, besides 0 and NO_SPACE.
FAILED = {1, 2}
MORE = ("--workers", "1", "--batch-bytes", "20000")


@dataclass(frozen=True)
class Command:
    inputs: Inputs
    disk: Path

    @property
    def place(self) -> Place:
        return Place(self.disk)

    def run(self) -> Ended:
        return self.place.run(self.inputs.words("run", self.place.out, *MORE))

    def well(self) -> None:
        ended = self.run()
        assert ended.code == 0, f"lost: {ended.err}"
        self.check()

    def check(self) -> None:
        self.inputs.check(self.place.out)

    def remove(self) -> None:
        for path in self.disk.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def command_on_disk(dataset: str, seed: int, rows: int) -> Iterator[tuple[Command, Path]]:
    """The command, its files in order, on a path that may be a mounted disk or a directory."""
    root = Path(tempfile.mkdtemp(prefix="booksan-disk-", dir=SCRATCH))
    try:
        (root / "inputs").mkdir()
        inputs = Inputs.make(dataset, root / "inputs", seed, rows=rows)
        yield Command(inputs, root / "disk"), root
    finally:
        shutil.rmtree(root)


def meet_faults(dataset: str, seed: int, count: int, rows: int = 60) -> Counts:
    """Each run meets one fault; then the same command ends it, without one."""
    found, chance = Counts(), random.Random(seed)
    with command_on_disk(dataset, seed, rows) as (command, _), mounted(command.disk) as disk:
        disk.fail()
        command.well()
        calls = disk.counts()
        for number in range(count):
            disk.fail()
            command.remove()
            fault = _fault(chance, calls)
            found.cuts += 1
            judged(found, number, lambda fault=fault: _meet(command, disk, fault), str(fault))  # type: ignore[misc]
    return found


def _fault(chance: random.Random, calls: dict[str, int]) -> Fault:
    kind = chance.choice(("create", "mkdir", "unlink", "rename", "write", "fsync", "truncate"))
    code = chance.choice((errno.EIO, errno.ENOSPC))
    first = chance.randint(1, calls[kind])
    # A full disk stays full for a while; it may be long enough to end the run.
    return Fault(kind, first, first + (chance.choice((0, 0, 40)) if code != errno.EIO else 0), code)


def _meet(command: Command, disk: Disk, fault: Fault) -> None:
    disk.fail(fault)
    ended = command.run()
    disk.fail()
    if ended.code == 0:
        command.check()
        return
    assert ended.code in FAILED | {NO_SPACE}, f"ended with {ended.code}: {ended.err}"
    if fault.code == errno.ENOSPC:
        assert ended.code == NO_SPACE, f"no space, ended with {ended.code}: {ended.err}"
    assert ended.err.splitlines()[-1].startswith("booksan: "), ended.err
    command.well()


def cut_runs(dataset: str, seed: int, count: int, rows: int = 60) -> Counts:
    """Where the power failed the same command goes on; answers that were told of are there."""
    found = Counts()
    with command_on_disk(dataset, seed, rows) as (command, root):
        with mounted(command.disk) as disk:
            disk.mark("begun")
            command.well()
            disk.mark("ended")
            life = Life.of(disk.log(root / "log"))
        for place, left in cuts(life, seed, count):
            found.cuts += 1
            shutil.rmtree(command.disk, ignore_errors=True)
            shutil.copytree(left, command.disk, symlinks=True, ignore=_pipes)
            ended = ["ended"] in life.known(place)
            judged(found, place, command.check if ended else command.well)
    return found


def _pipes(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(directory) / name).is_fifo()]
