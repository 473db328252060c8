"""Which hosts are revived, and which are left alone."""

import fcntl
import os
import subprocess
import time
from pathlib import Path

import pytest

from booksan.host.status import HOST_LOCK
from booksan.membership import revive


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


def test_the_pid_of_an_earlier_supervisor_is_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that has just taken the lock has not written its own pid yet."""
    monkeypatch.setattr(revive, "GENERATION_TIMEOUT", 0.1)
    descriptor = os.open(tmp_path / HOST_LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with subprocess.Popen(["sleep", "60"]) as stranger:
            try:
                (tmp_path / HOST_LOCK).write_text(f"{stranger.pid}\n")
                revive._end(tmp_path)
                assert stranger.poll() is None
            finally:
                stranger.kill()
    finally:
        os.close(descriptor)
