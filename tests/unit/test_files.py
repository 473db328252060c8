"""A file is there whole or not at all, and what was there before stays until then."""

import fcntl
import os
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from booksan.host.config import HostConfig, WorkerSpec, write_config
from booksan.host.status import HostState, HostStatus, write_status
from booksan_common.files import (
    is_locked,
    sync_directory,
    take_lock,
    try_lock,
    write_atomically,
)


class Full(Exception):
    """The disk, in these tests."""


def half_then_full(file: BinaryIO) -> None:
    file.write(b"half of the")
    file.flush()
    raise Full


def only_file(directory: Path) -> bytes:
    (path,) = directory.iterdir()
    return path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"text\n", b"\0\xff" * 100_000])
def test_bytes_are_written_as_they_are(tmp_path: Path, content: bytes) -> None:
    write_atomically(tmp_path / "q1.csv", content)
    assert (tmp_path / "q1.csv").read_bytes() == only_file(tmp_path) == content


def test_a_writer_writes_piece_by_piece(tmp_path: Path) -> None:
    def pieces(file: BinaryIO) -> None:
        for piece in (b"a", b"b", b"c"):
            file.write(piece)

    write_atomically(tmp_path / "q1.csv", pieces)
    assert only_file(tmp_path) == b"abc"


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    write_atomically(tmp_path / "q1.csv", b"a long old content")
    write_atomically(tmp_path / "q1.csv", b"new")
    assert only_file(tmp_path) == b"new"


@pytest.mark.parametrize("error", [Full, KeyboardInterrupt, OSError])
def test_pitfall_a_torn_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"half of the")
        raise error

    write_atomically(tmp_path / "q1.csv", b"old")
    with pytest.raises(error):
        write_atomically(tmp_path / "q1.csv", write)
    assert only_file(tmp_path) == b"old"


def test_a_failing_first_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Full):
        write_atomically(tmp_path / "q1.csv", half_then_full)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_failing_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space")

    write_atomically(tmp_path / "q1.csv", b"old")
    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(tmp_path / "q1.csv", b"new")
    assert only_file(tmp_path) == b"old"


def test_a_file_does_not_replace_a_directory(tmp_path: Path) -> None:
    (tmp_path / "q1.csv").mkdir()
    with pytest.raises(OSError, match=r"q1\.csv"):
        write_atomically(tmp_path / "q1.csv", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["q1.csv"]


def test_pitfall_content_is_synced_before_it_gets_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        name = "directory" if stat.S_ISDIR(found.st_mode) else f"file {found.st_size}"
        steps.append(f"sync {name}")
        fsync(descriptor)

    def watched_replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    write_atomically(tmp_path / "q1.csv", b"12345")
    assert steps == ["sync file 5", "rename", "sync directory"]


def test_a_directory_can_be_synced_and_a_file_is_none(tmp_path: Path) -> None:
    sync_directory(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        sync_directory(tmp_path / "file")


def test_a_link_that_waits_under_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / ".q1.csv.tmp").symlink_to(victim)
    write_atomically(tmp_path / "answers" / "q1.csv", b"new")
    assert victim.read_bytes() == b"mine"
    assert only_file(tmp_path / "answers") == b"new"


def test_what_a_host_is_asked_for_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it reports again and again waits for no disk."""
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
    )
    write_config(tmp_path, HostConfig((WorkerSpec("q4-top", 0),)))
    assert synced == [".host.json.tmp", tmp_path.name]
    write_status(tmp_path, HostStatus(1, HostState.RUNNING, 0, ()))
    assert len(synced) == 2


def test_a_lock_has_one_holder_and_is_seen_by_others(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    assert not path.exists()
    lock = try_lock(path)
    assert lock is not None
    assert is_locked(path)
    assert is_locked(path)
    assert try_lock(path) is None
    with pytest.raises(BlockingIOError):
        take_lock(path)
    os.close(lock)
    assert not is_locked(path)


def test_a_lock_that_went_while_it_was_taken_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flock = tmp_path / "lock", fcntl.flock

    def removed_first(descriptor: int, operation: int) -> None:
        path.unlink()
        flock(descriptor, operation)

    assert take_lock(tmp_path / "gone" / "lock") is None
    monkeypatch.setattr(fcntl, "flock", removed_first)
    assert take_lock(path) is None
