"""A supervisor that is at work is told apart from one that is dead, hangs or is stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from booksan.host.status import HOST_LOCK, STATUS_FILE, supervisor_pid
from booksan.membership import liveness
from booksan.membership.liveness import is_at_work
from tests.support.command import wait_until

SUPERVISOR = """
import sys, time
from pathlib import Path
from booksan.membership.liveness import Heartbeat
from booksan.host.status import take_locks
root = Path(sys.argv[-1])
locks = take_locks(root, 0)
(root / "host-status.json").touch()
beating = Heartbeat(root)
while True:
    beating.beat(time.monotonic())
    time.sleep(0.1)
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", SUPERVISOR, "booksan.supervisor", str(tmp_path)]
    with subprocess.Popen(command) as process:
        try:
            wait_until((tmp_path / STATUS_FILE).exists)
            yield process
        finally:
            process.kill()


def test_one_whose_loop_moves_is_at_work(
    tmp_path: Path, supervisor: "subprocess.Popen[bytes]"
) -> None:
    began = time.monotonic()
    assert is_at_work(tmp_path, 60)
    assert time.monotonic() - began < 30, "whoever asks need not wait longer than for a beat"


def test_one_that_is_stopped_is_not_and_after_it_is_continued_it_is(
    tmp_path: Path, supervisor: "subprocess.Popen[bytes]"
) -> None:
    supervisor.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, supervisor.pid, os.WSTOPPED)
    assert supervisor_pid(tmp_path) == supervisor.pid
    assert not is_at_work(tmp_path, 1.5)
    supervisor.send_signal(signal.SIGCONT)
    assert is_at_work(tmp_path, 60)


def test_one_that_is_dead_is_not_and_nobody_waits_for_it(
    tmp_path: Path, supervisor: "subprocess.Popen[bytes]"
) -> None:
    supervisor.kill()
    supervisor.wait()
    began = time.monotonic()
    assert not is_at_work(tmp_path, 60)
    assert time.monotonic() - began < 30


def test_a_container_asks_for_its_first_process(
    tmp_path: Path, supervisor: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "_PROCESS_1", Path(f"/proc/{supervisor.pid}/cmdline"))
    assert liveness.main() == 0
    monkeypatch.setattr(liveness, "_PROCESS_1", Path("/proc/self/cmdline"))
    assert liveness.main() == 1
    assert (tmp_path / HOST_LOCK).exists()
