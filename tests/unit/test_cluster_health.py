"""Whether a host that was started is at work."""

import fcntl
import os
from pathlib import Path

import pytest

from booksan.cluster.paths import HostRecord
from booksan.cluster.processes import ProcessId
from booksan.cluster.registry import Starting, waits_for
from booksan.errors import BooksanError
from booksan.host.status import HOST_LOCK, HostState, HostStatus, write_status

GONE = ProcessId(2**22 + 1, "never")


def starting(data_dir: Path) -> Starting:
    """A host whose process, as it was started, has ended."""
    record = HostRecord(1, "127.0.0.1:9", "http://127.0.0.1:9", str(data_dir), GONE)
    return Starting("alpha", record, 0)


def test_a_host_that_a_leader_was_quicker_to_start_is_at_work_as_well(tmp_path: Path) -> None:
    """Two start at once; the one that comes second finds the directory locked, and ends."""
    (tmp_path / HOST_LOCK).write_text(f"{os.getpid()}\n")
    descriptor = os.open(tmp_path / HOST_LOCK, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert waits_for(starting(tmp_path)) == "its supervisor has not started all workers"
        write_status(tmp_path, HostStatus(os.getpid(), HostState.RUNNING, 0, ()))
        assert "gateway" in str(waits_for(starting(tmp_path)))
    finally:
        os.close(descriptor)


def test_a_host_that_ended_and_has_no_other_supervisor_has_failed(tmp_path: Path) -> None:
    with pytest.raises(BooksanError, match="host alpha ended"):
        waits_for(starting(tmp_path))
    write_status(tmp_path, HostStatus(GONE.pid, HostState.FAILED, 0, (), "no such stage", 78))
    with pytest.raises(BooksanError, match="no such stage"):
        waits_for(starting(tmp_path))
