"""The promises of the fork server: workers come from it, and are none the worse without it."""

import json
import os
import random
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import psutil
import pytest

from booksan.host.config import HostConfig, RestartPolicy, WorkerSpec, write_config
from booksan.host.handle import Host
from booksan.host.status import HostState, workers_alive
from booksan.supervisor.child import Nursery
from booksan.supervisor.forkserver import PAUSES, ForkServer
from tests.integration.test_supervisor import (
    ENV,
    THREE,
    Starter,
    assert_all_gone,
    fork_server,
    start,
    status,
    supervisor_log,
    until,
    wait_for_restarts,
    wait_until_ready,
)

__all__ = ["start"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a fork server")

#: However often they are killed.
PATIENT = RestartPolicy(max_delay=0.05)


def server_of(host: Host) -> psutil.Process:
    found: psutil.Process | None = fork_server(host)
    assert found is not None
    return found


def description(data_dir: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((data_dir / "description").read_text())
    return found


def test_workers_come_from_the_fork_server_and_are_children_of_the_supervisor(
    start: Starter, tmp_path: Path
) -> None:
    host = start("describes_itself", workers=THREE[:1])
    worker = wait_until_ready(host, tmp_path)["stage.0"]
    assert description(tmp_path)["frozen"] is True
    assert description(tmp_path)["parent"] == host.pid == worker.ppid()


def test_a_killed_fork_server_takes_no_worker_along_and_comes_back(
    start: Starter, tmp_path: Path
) -> None:
    host = start("steady")
    before = wait_until_ready(host, tmp_path)
    server = server_of(host)

    server.kill()
    assert_all_gone([server])
    before["stage.1"].kill()
    wait_for_restarts(host, 1)
    after = wait_until_ready(host, tmp_path)

    assert after["stage.0"] == before["stage.0"]
    assert after["stage.2"] == before["stage.2"]
    until(lambda: fork_server(host) not in (None, server), "another fork server")
    assert status(host).restarts == 1


def test_a_worker_that_dies_with_the_fork_server_comes_back(start: Starter, tmp_path: Path) -> None:
    host = start("steady", restart=PATIENT)
    for count in range(1, 4):
        workers = wait_until_ready(host, tmp_path)
        server = fork_server(host)
        workers["stage.1"].kill()
        if server is not None:
            server.kill()
        wait_for_restarts(host, count)
    wait_until_ready(host, tmp_path)
    assert status(host).state is HostState.RUNNING


def test_a_fork_server_that_stands_still_is_killed_and_holds_up_no_worker_for_long(
    start: Starter, tmp_path: Path
) -> None:
    host = start("steady")
    workers = wait_until_ready(host, tmp_path)
    server = server_of(host)
    server.suspend()
    workers["stage.1"].kill()
    wait_for_restarts(host, 1)
    wait_until_ready(host, tmp_path)
    assert_all_gone([server])
    assert "the fork server does not answer" in supervisor_log(tmp_path)


def test_another_fork_server_is_not_waited_for_in_place_of_the_one_that_was_asked(
    start: Starter, tmp_path: Path
) -> None:
    # Without a delay it is asked for as soon as its end is reported.
    host = start("steady", restart=RestartPolicy(first_delay=0.0))
    workers = wait_until_ready(host, tmp_path)
    server = server_of(host)
    until(lambda: time.time() > server.create_time() + PAUSES[0] + 0.5, "the time for another one")
    server.suspend()
    workers["stage.1"].kill()
    until(lambda: status(host).workers[1].pid is None, "the worker's end")
    server.kill()
    wait_for_restarts(host, 1)
    wait_until_ready(host, tmp_path)
    assert "the fork server has ended" in supervisor_log(tmp_path)
    until(lambda: fork_server(host) not in (None, server), "another fork server")


def test_a_worker_that_was_told_of_is_known_whatever_else_was_asked_for() -> None:
    """Otherwise it would be at work beside another one in its place."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    # Without a process: it is the socket alone that counts.
    server = ForkServer(cast(Nursery, None), HostConfig(THREE))
    server._socket = ours
    assert server.ask(0) is not None
    theirs.send(b"1 4711")
    theirs.close()
    assert server.reports() == [(1, 4711)]
    assert server.fds == []
    server.all_reported()


def test_without_a_fork_server_the_supervisor_forks_by_itself(tmp_path: Path) -> None:
    entry = "tests.integration.threaded_entries:describes_itself"
    write_config(tmp_path, HostConfig(THREE[:1], entry))
    with Host(tmp_path, ENV) as host:
        worker = wait_until_ready(host, tmp_path)["stage.0"]
        assert description(tmp_path)["frozen"] is False
        worker.kill()
        wait_for_restarts(host, 1)
        wait_until_ready(host, tmp_path)
        assert description(tmp_path)["frozen"] is False
    assert "a fork would lose threads" in (tmp_path / "logs/fork-server.log").read_text()


def test_a_worker_that_is_killed_right_after_its_fork_is_forked_again(
    start: Starter, tmp_path: Path
) -> None:
    host = start("steady", restart=PATIENT)
    known = {worker.pid for worker in wait_until_ready(host, tmp_path).values()}
    known.add(server_of(host).pid)
    children = Path(f"/proc/{host.pid}/task/{host.pid}/children")
    os.kill(max(known - {server_of(host).pid}), signal.SIGKILL)
    killed = 0
    deadline = time.monotonic() + 20
    while killed < 8 and time.monotonic() < deadline:
        for pid in set(map(int, children.read_text().split())) - known:
            known.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            killed += 1
    wait_for_all_alive(host, tmp_path)
    assert killed == 8
    assert status(host).state is HostState.RUNNING


def wait_for_all_alive(host: Host, data_dir: Path) -> None:
    def alive() -> bool:
        found = status(host).workers
        return all(each.pid is not None and psutil.pid_exists(each.pid) for each in found)

    until(alive, "all workers")
    wait_until_ready(host, data_dir)


def wait_for_children(host: Host, count: int) -> None:
    children = Path(f"/proc/{host.pid}/task/{host.pid}/children")
    until(lambda: len(children.read_text().split()) > count, "some workers")


def test_nothing_outlives_a_supervisor_that_is_killed_while_workers_are_forked(
    tmp_path: Path,
) -> None:
    """All of the tree hold the lock, also one that is nobody's child yet."""
    chance = random.Random(7)
    entry = "tests.integration.supervisor_entries:steady"
    many = tuple(WorkerSpec("stage", shard) for shard in range(12))
    write_config(tmp_path, HostConfig(many, entry))
    for _ in range(6):
        host = Host(tmp_path, ENV)
        host.start()
        assert host.pid is not None
        wait_for_children(host, chance.randrange(1, len(many) + 1))
        threading.Event().wait(chance.random() / 1000)
        psutil.Process(host.pid).kill()
        until(lambda: not workers_alive(tmp_path), "nobody left")
        host.stop()
    assert not (tmp_path / "overlap").exists()


def test_a_host_that_is_told_to_end_while_it_starts_leaves_nobody(
    start: Starter, tmp_path: Path
) -> None:
    for _ in range(5):
        host = start("steady")
        assert host.stop() == 0
        # One that was just being forked is killed, and may not be quite gone.
        until(lambda: not workers_alive(tmp_path), "nobody left")
        assert {worker.pid for worker in status(host).workers} == {None}


def test_after_kill_9_of_everything_the_host_starts_again(start: Starter, tmp_path: Path) -> None:
    host = start("steady")
    for _ in range(3):
        everybody = [*wait_until_ready(host, tmp_path).values(), server_of(host)]
        for process in [*everybody, psutil.Process(host.pid)]:
            process.kill()
        assert_all_gone(everybody)
        host.restart()
    wait_until_ready(host, tmp_path)
    assert not (tmp_path / "overlap").exists()
