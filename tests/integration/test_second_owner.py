"""A second owner of a shard waits for the first to go, and says so; its host does not end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from booksan.errors import QueueBusy
from booksan.host.config import HostConfig, WorkerSpec, write_config
from booksan.host.status import supervisor_pid
from booksan.transport import open_transport
from tests.support.command import PATIENCE, wait_until

QUEUE = "q1-filter.0"


@pytest.fixture
def host(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    data_dir = tmp_path / "host"
    write_config(data_dir, HostConfig((WorkerSpec("q1-filter", 0), WorkerSpec("q3-join", 0))))
    env = {"BOOKSAN_QUEUES": f"spool:{tmp_path / 'spool'}", "BOOKSAN_OWNER_SECONDS": "0.5"}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "booksan.supervisor", str(data_dir)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | env,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_shard_with_another_owner_is_waited_for_and_the_host_goes_on(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log = tmp_path / "host/logs/q1-filter.0.log"
    with open_transport(f"spool:{tmp_path / 'spool'}") as transport:
        with transport.consume(QUEUE):
            host = request.getfixturevalue("host")
            wait_until(lambda: log.exists() and "another process works as" in log.read_text())
            assert host.poll() is None
            assert supervisor_pid(tmp_path / "host") == host.pid
            # The other shard is at work meanwhile.
            wait_until(lambda: is_taken(tmp_path, "q3-join.0"))
        wait_until(lambda: is_taken(tmp_path, QUEUE))
    host.send_signal(signal.SIGTERM)
    assert host.wait(PATIENCE) == 0


def is_taken(root: Path, queue: str) -> bool:
    with open_transport(f"spool:{root / 'spool'}") as transport:
        try:
            transport.consume(queue).close()
        except QueueBusy:
            return True
    return False
