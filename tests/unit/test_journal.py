"""A killed client goes on with the very same batches, or refuses because the file has changed."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from booksan_client.state import Entry, Journal, digest_of, fingerprint, lasting
from booksan_common.errors import InputError

FILE = {"path": "books.csv", "size": 100, "mtime_ns": 5, "ends": "abc"}
CUT = {"batch_bytes": 10, "batch_lines": 3}


def entry(number: int) -> Entry:
    return Entry(number * 10, number * 10 + 10, digest_of(b"%d" % number))


def opened(path: Path, file: dict[str, Any] = FILE, cut: dict[str, int] = CUT) -> Journal:
    return Journal(path, file, cut)


def written(path: Path, batches: int, *taken: int) -> None:
    journal = opened(path)
    for number in range(batches):
        journal.begin(number, entry(number))
    for number in taken:
        journal.take(number)
    journal.close()


def loaded(path: Path) -> tuple[list[Entry], set[int], dict[str, int]]:
    journal = opened(path)
    journal.close()
    return journal.entries, journal.taken, journal.cut


def test_a_new_journal_is_empty(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    assert (journal.entries, journal.taken, journal.cut) == ([], set(), CUT)
    assert journal.first_missing() == 0
    journal.close()


def test_what_was_noted_is_there_after_a_restart(tmp_path: Path) -> None:
    written(tmp_path / "j", 4, 0, 2)
    assert loaded(tmp_path / "j") == ([entry(n) for n in range(4)], {0, 2}, CUT)


@pytest.mark.parametrize(
    ("taken", "first"),
    [((), 0), ((0,), 1), ((1, 2), 0), ((0, 2), 1), ((0, 1, 2, 3), 4), ((3, 1, 0), 2)],
)
def test_the_first_batch_that_is_not_taken_is_known(
    tmp_path: Path, taken: tuple[int, ...], first: int
) -> None:
    written(tmp_path / "j", 4, *taken)
    journal = opened(tmp_path / "j")
    assert journal.first_missing() == first
    journal.close()


def test_batches_are_cut_as_they_were_at_first(tmp_path: Path) -> None:
    written(tmp_path / "j", 1)
    journal = opened(tmp_path / "j", cut={"batch_bytes": 999, "batch_lines": 999})
    assert journal.cut == CUT
    journal.close()


@pytest.mark.parametrize("change", [{"mtime_ns": 6}, {"inode": 7}, {"ctime_ns": 8}])
def test_a_file_that_may_have_changed_gives_doubt(tmp_path: Path, change: dict[str, Any]) -> None:
    written(tmp_path / "j", 2, 0)
    with contextlib.closing(opened(tmp_path / "j")) as journal:
        assert not journal.doubtful
    with contextlib.closing(opened(tmp_path / "j", FILE | change)) as journal:
        assert journal.doubtful
        assert len(journal.entries) == 2


@pytest.mark.parametrize("change", [{"size": 101}, {"ends": "x"}, {"path": "b"}])
def test_a_changed_file_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    written(tmp_path / "j", 2, 0)
    before = (tmp_path / "j").read_bytes()
    with pytest.raises(InputError, match="has changed since"):
        opened(tmp_path / "j", {**FILE, **change})
    assert (tmp_path / "j").read_bytes() == before


def test_a_batch_that_was_noted_must_be_the_same(tmp_path: Path) -> None:
    written(tmp_path / "j", 2)
    journal = opened(tmp_path / "j")
    journal.begin(1, entry(1))
    for other in (
        entry(1)._replace(start=9),
        entry(1)._replace(end=21),
        entry(1)._replace(digest=digest_of(b"other")),
    ):
        with pytest.raises(InputError, match="batch 1 is not what it was"):
            journal.begin(1, other)
    journal.begin(2, entry(2))
    journal.close()
    assert loaded(tmp_path / "j")[0] == [entry(0), entry(1), entry(2)]


def test_a_journal_torn_at_any_byte_goes_on_from_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path, 3, 0, 1)
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        whole = data[:length].count(b"\n")
        entries, taken, _ = loaded(path)
        assert entries == [entry(n) for n in range(min(max(whole - 1, 0), 3))]
        assert taken == set(range(max(whole - 4, 0)))
        assert path.read_bytes() == b"".join(lines[: max(whole, 1)])


def test_a_journal_in_which_a_power_cut_left_zeros_goes_on_before_them(tmp_path: Path) -> None:
    """The end of a file can reach the disk before what comes before it."""
    path = tmp_path / "j"
    written(path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(20) + b'"taken":1}\n{"taken":2}\n')
    assert loaded(path) == ([entry(n) for n in range(3)], set(), CUT)
    assert path.read_bytes() == whole


def test_a_torn_journal_can_be_written_on_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path, 2)
    with path.open("ab") as file:
        file.write(b'{"batch":2,"sta')
    journal = opened(path)
    journal.begin(2, entry(2))
    journal.take(2)
    journal.close()
    assert loaded(path) == ([entry(n) for n in range(3)], {2}, CUT)


def test_pitfall_recovering_does_not_write_what_was_recovered_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path, 3, 0)
    before = path.read_bytes()
    for _ in range(3):
        journal = opened(path)
        for number in range(3):
            journal.begin(number, entry(number))
        journal.close()
        assert path.read_bytes() == before


def test_pitfall_a_batch_is_synced_to_disk_when_it_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    sync = os.fdatasync

    def watched(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", watched)
    path = tmp_path / "j"
    journal = opened(path)
    expected = [path.stat().st_size]
    for number in range(2):
        journal.begin(number, entry(number))
        expected.append(path.stat().st_size)
    journal.close()
    assert sizes == expected


def test_a_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "books.csv"

    def made(content: bytes, time: int = 1) -> dict[str, Any]:
        path.write_bytes(content)
        os.utime(path, ns=(0, time))
        return lasting(fingerprint(path))

    long = bytes(200_000)
    assert made(long) == made(long)
    prints = [
        made(b""),
        made(b"a"),
        made(b"b"),
        made(b"b", 2),
        made(long),
        made(b"x" + long[1:]),
        made(long[1:] + b"x"),
        made(long + b"\0"),
    ]
    assert all(one != other for n, one in enumerate(prints) for other in prints[:n])


def test_a_fingerprint_does_not_depend_on_how_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "books.csv").write_bytes(b"a")
    monkeypatch.chdir(tmp_path)
    assert fingerprint(Path("books.csv")) == fingerprint(tmp_path / "." / "books.csv")
