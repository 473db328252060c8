"""Which hosts are revived, and which are left alone."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from booksan.supervisor import revive
from booksan.supervisor.locks import HOST_LOCK


@pytest.mark.parametrize(("age", "left_alone"), [(1.0, True), (60.0, False), (-3600.0, False)])
def test_a_supervisor_is_young_whatever_became_of_the_clock(
    tmp_path: Path, age: float, left_alone: bool
) -> None:
    """A clock that was set back must not keep a host that hangs alive for so long."""
    lock = tmp_path / HOST_LOCK
    lock.write_text(f"{os.getpid()}\n")
    os.utime(lock, (time.time() - age,) * 2)
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert (revive._why_not(tmp_path) is not None) == left_alone
    finally:
        os.close(descriptor)
