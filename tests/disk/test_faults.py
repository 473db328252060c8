"""Disks that refuse a call: the run ends right, or says why, and the same command ends it.

`make soak` tries every call of one run of each data set; BOOKSAN_FAULTS tells how many real
commands meet a fault there.
"""

import errno
import os
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from booksan.gateway.config import write_gateway_config
from booksan.host.config import HostConfig, WorkerSpec, write_config
from booksan_client.state import Entry, Journal
from tests.disk.command import cut_runs, meet_faults
from tests.disk.cuts import Record
from tests.disk.disk import mounted
from tests.disk.faults import Failing, fail_then_cut
from tests.disk.fuse import Fault
from tests.disk.power import Counts
from tests.support.gateway_host import CONFIG
from tests.support.sets import sample_of

Note = Callable[[str, object], None]
#: What a journal is of.
FILE: tuple[dict[str, object], dict[str, int]] = ({"path": "x", "size": 1, "ends": "e"}, {"cut": 1})
DATASETS = ("books", "flights", "aoe2", "steam")
MANY = int(os.environ.get("BOOKSAN_FAULTS", "40"))


def well(found: Counts) -> None:
    assert not found.bad, "\n".join(found.examples)


@pytest.mark.parametrize("dataset", DATASETS)
def test_calls_that_fail_change_no_answer(
    tmp_path: Path, dataset: str, record_property: Note
) -> None:
    found = Counts()
    with mounted(tmp_path / "disk") as disk:
        failing = Failing(disk, sample_of(dataset, 3, rows=30))
        for number, fault in enumerate(failing.faults(1, 5)):
            failing.meet(found, number, 1, fault)
    record_property(f"failing calls under {dataset}", found.cuts)
    well(found)


def test_a_sync_that_failed_once_confirms_nothing(tmp_path: Path, record_property: Note) -> None:
    """The next one says that all is well, and what was dirty then is gone nevertheless."""
    with mounted(tmp_path / "disk") as disk:
        found = fail_then_cut(disk, tmp_path / "log", sample_of("books", 3, rows=30), 1, 6)
    record_property("power cuts after a sync that failed", found.cuts)
    well(found)


def test_a_full_disk_is_told_as_one_when_the_files_of_a_host_are_written(tmp_path: Path) -> None:
    """So that the command ends with the exit code for that."""
    with mounted(tmp_path / "disk") as disk:
        disk.fail(Fault("write", 1, 99, errno.ENOSPC))
        with pytest.raises(OSError, match="No space"):
            write_config(disk.path, HostConfig((WorkerSpec("results", 0),)))
        with pytest.raises(OSError, match="No space"):
            write_gateway_config(disk.path, CONFIG)


@pytest.mark.parametrize("kind", ["fsync", "write"])
def test_a_batch_whose_note_failed_is_noted_anew(tmp_path: Path, kind: str) -> None:
    with mounted(tmp_path / "disk") as disk:
        path = disk.path / "books.journal"
        with closing(Journal(path, *FILE)) as journal:
            disk.fail(Fault(kind, 1, 1, errno.EIO))
            with pytest.raises(OSError, match="Input/output"):
                journal.begin(0, Entry(0, 1, "a"))
        for _ in range(2):
            with closing(Journal(path, *FILE)) as journal:
                journal.begin(0, Entry(0, 1, "b"))
        log = disk.log(tmp_path / "log")
    record = Record()
    for change in log:
        record.take(change)
    left = tmp_path / "left"
    left.mkdir()
    record.cut(random.Random(1), left)
    with closing(Journal(left / path.name, *FILE)) as journal:
        assert journal.entries == [Entry(0, 1, "b")]


def test_a_command_whose_disk_fails_ends_right_or_can_be_typed_again(
    record_property: Note,
) -> None:
    found = meet_faults("books", 2, 2)
    record_property("failing calls under a command", found.cuts)
    well(found)


def test_a_command_goes_on_after_a_power_cut(record_property: Note) -> None:
    found = cut_runs("books", 2, 2)
    record_property("power cuts under a command", found.cuts)
    well(found)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_call_of_a_run_fails_once(
    tmp_path: Path, dataset: str, record_property: Note
) -> None:
    found = Counts()
    with mounted(tmp_path / "disk") as disk:
        failing = Failing(disk, sample_of(dataset, 3, rows=8))
        for number, fault in enumerate(failing.every(1)):
            failing.meet(found, number, 1, fault)
    record_property(f"failing calls under {dataset}", found.cuts)
    well(found)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dataset", DATASETS)
def test_many_syncs_that_failed_confirm_nothing(
    tmp_path: Path, dataset: str, record_property: Note
) -> None:
    found = Counts()
    for seed in range(MANY // 4):
        with mounted(tmp_path / str(seed)) as disk:
            sample = sample_of(dataset, 3, rows=30)
            found.add(fail_then_cut(disk, tmp_path / "log", sample, seed, 5))
    record_property(f"power cuts after a sync that failed, {dataset}", found.cuts)
    well(found)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dataset", DATASETS)
def test_many_commands_on_disks_that_fail(dataset: str, record_property: Note) -> None:
    faults, cuts = meet_faults(dataset, 3, MANY), cut_runs(dataset, 3, MANY)
    record_property(f"failing calls under {dataset} as a command", faults.cuts)
    record_property(f"power cuts under {dataset} as a command", cuts.cuts)
    faults.add(cuts)
    well(faults)
