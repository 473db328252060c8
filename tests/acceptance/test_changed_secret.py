"""The secret of a running cluster is changed host by host, and clients at work notice nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from booksan.cluster.paths import read_record
from booksan.host.logs import LOGS, SUPERVISOR_LOG
from booksan.host.status import supervisor_pid
from tests.support.cluster import Client
from tests.support.command import PATIENCE, Place, wait_until
from tests.support.hosts import command, place_for_hosts, two_hosts

OLD, NEW = "the old secret of the cluster ...", "the new secret of the cluster ..."


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


def up(place: Place, secret: str, also: str) -> None:
    words = ("cluster", "up", place.root / "two.toml", "--any-ports", "--wait", str(PATIENCE))
    env = {"BOOKSAN_SECRET": secret, "BOOKSAN_SECRET_ALSO": also}
    done = command(place, *words, env=env)
    assert done.code == 0, done.err


def data_dirs(place: Place) -> list[Path]:
    record = read_record(place.state / "booksan/clusters/two")
    assert record is not None
    return [Path(host.data_dir) for host in record.hosts.values()]


def servers(place: Place) -> str:
    record = read_record(place.state / "booksan/clusters/two")
    assert record is not None
    return ",".join(host.gateway for host in record.hosts.values())


def stop(data_dir: Path) -> None:
    pid = supervisor_pid(data_dir)
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: supervisor_pid(data_dir) is None)


def submitting(client: Client, where: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "booksan", *map(str, client.words("--batch-bytes", "4096"))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=client.place.environment({"BOOKSAN_SERVER": where}),
    )


def test_clients_at_work_get_their_answers_whatever_signed_their_tickets(place: Place) -> None:
    two_hosts(place.root)
    up(place, OLD, "")
    busy = Client.make(place.root / "busy", 1, reviews=6000)
    # Sleeps through all of it, and wakes with a ticket and a permit that nobody accepts any more.
    asleep = Client.make(place.root / "asleep", 2, reviews=2000)
    runs = [(client, submitting(client, servers(place))) for client in (busy, asleep)]
    try:
        for client, _ in runs:
            wait_until(client.journal)
        runs[1][1].send_signal(signal.SIGSTOP)
        for secret, also in ((OLD, NEW), (NEW, OLD), (NEW, "")):
            for data_dir in data_dirs(place):
                stop(data_dir)
                up(place, secret, also)
        runs[1][1].send_signal(signal.SIGCONT)
        for client, process in runs:
            out, err = process.communicate(timeout=2 * PATIENCE)
            assert process.returncode == 0, err.decode() + out.decode()
            assert b"lost the run" not in err
            client.check()
    finally:
        for _, process in runs:
            process.kill()
            process.communicate()
    for data_dir in data_dirs(place):
        assert (data_dir / "secret").read_text() == NEW
        lines = (data_dir / LOGS / SUPERVISOR_LOG).read_text().splitlines()
        events = [json.loads(line)["event"] for line in lines]
        assert sum(event.endswith(" workers") for event in events) == 4, (
            "stopped thrice, not killed"
        )
        assert not [event for event in events if "kills the old" in event or "left alone" in event]
