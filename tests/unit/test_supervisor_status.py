"""The report of a host, and the last words of its workers."""

from pathlib import Path

import pytest

from booksan.host.logs import last_line
from booksan.host.status import (
    HostState,
    HostStatus,
    WorkerState,
    WorkerStatus,
    read_status,
    write_status,
)
from booksan.supervisor.workers import describe_exit

STATUS = HostStatus(
    pid=7,
    state=HostState.RUNNING,
    restarts=2,
    workers=(
        WorkerStatus("q3-join.0", 8, WorkerState.RUNNING, 2, 1700000000.25),
        WorkerStatus("q3-join.1", None, WorkerState.WAITING, 0, 1700000001.5),
    ),
)


def test_a_report_is_read_back_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_status(tmp_path, STATUS)
    assert read_status(tmp_path) == STATUS
    assert [path.name for path in tmp_path.iterdir()] == ["host-status.json"]


def test_a_report_goes_into_no_link_that_waits_under_the_name_of_its_temporary(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    for name in ("host-status.json.tmp", ".host-status.json.tmp"):
        (tmp_path / "data" / name).symlink_to(tmp_path / "elsewhere")
    write_status(tmp_path / "data", STATUS)
    assert read_status(tmp_path / "data") == STATUS
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"workers": [{}]}'])
def test_a_report_that_cannot_be_read_counts_as_none(tmp_path: Path, text: str) -> None:
    assert read_status(tmp_path) is None
    (tmp_path / "host-status.json").write_text(text)
    assert read_status(tmp_path) is None


def test_last_words_are_those_of_the_last_process_only(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    assert last_line(log, 0) == ""
    log.write_text("ValueError: old\n")
    assert last_line(log, 0) == "ValueError: old"
    offset = log.stat().st_size
    assert last_line(log, offset) == ""
    with log.open("a") as file:
        file.write("x\n" * 10_000 + "ValueError: new\n\n")
    assert last_line(log, offset) == "ValueError: new"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended by itself with code 0"),
        (78, "ended by itself with code 78"),
        (-9, "was killed by SIGKILL"),
        (-40, "was killed by signal 40"),
    ],
)
def test_an_end_is_told_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words
