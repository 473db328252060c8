"""Logs are begun anew before they fill a disk, under the hands of those who write them."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from booksan.host import logs

#: Writes two hundred lines whenever it is told to, and says when it has.
WRITER = """
import os
while os.read(0, 1):
    for number in range(200):
        os.write(1, b"%08d %s\\n" % (number, b"x" * 90))
    os.write(2, b".")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(logs, "LOG_BYTES", 100_000)
    (tmp_path / "logs").mkdir()
    return tmp_path


def test_a_long_log_begins_anew_and_the_one_before_is_kept(place: Path) -> None:
    log = logs.log_path(place, "q3-join.0")
    other = logs.log_path(place, "q1-filter.0")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"a" * 100_001)
    other.write_bytes(b"b" * 100_000)
    logs.rotate(place)
    os.write(descriptor, b"after\n")
    os.close(descriptor)
    assert log.read_bytes() == b"after\n"
    assert log.with_name("q3-join.0.log.1").read_bytes() == b"a" * 100_001
    assert other.stat().st_size == 100_000
    assert len(list(log.parent.iterdir())) == 3


def test_two_writers_at_once_stay_within_the_bound_and_break_no_line(place: Path) -> None:
    log = logs.log_path(place, "gateway.0")
    largest = 0
    pipe = subprocess.PIPE
    with log.open("ab") as output, ExitStack() as stack:
        command = [sys.executable, "-c", WRITER]
        writers = [
            stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=output, stderr=pipe))
            for _ in range(2)
        ]
        for _ in range(100):
            for writer in writers:
                assert writer.stdin is not None
                os.write(writer.stdin.fileno(), b".")
            # While they write.
            logs.rotate(place)
            largest = max(largest, logs.size(log.with_name("gateway.0.log.1")))
            for writer in writers:
                assert writer.stderr is not None
                assert os.read(writer.stderr.fileno(), 1) == b"."
    assert [writer.returncode for writer in writers] == [0, 0]
    logs.rotate(place)
    # All that was written is forty times the limit; between two looks they write 40 kB.
    assert 0 < largest < 200_000
    assert logs.size(log) <= 100_000
    kept = log.with_name("gateway.0.log.1").read_bytes() + log.read_bytes()
    assert all(len(line) == 99 for line in kept.splitlines())


def test_a_full_disk_leaves_the_log_as_it_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.log_path(place, "q3-join.0")
    log.write_bytes(b"a" * 100_001)

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    logs.rotate(place)
    assert log.stat().st_size == 100_001
    assert list(log.parent.iterdir()) == [log]


def test_the_last_words_are_found_in_a_log_that_was_begun_anew(place: Path) -> None:
    log = logs.log_path(place, "q3-join.0")
    log.write_bytes(b"after\n")
    assert logs.last_line(log, 200_000) == "after"
    assert logs.last_line(log, 0) == "after"
    assert logs.last_line(log, 6) == ""


def test_without_logs_there_is_nothing_to_do(tmp_path: Path) -> None:
    logs.rotate(tmp_path)
    assert list(tmp_path.iterdir()) == []
