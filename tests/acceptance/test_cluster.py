"""Three hosts on RabbitMQ: many clients at once, everything killed, queues that stay short."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from booksan.gateway.uploads import QUEUE_LIMIT
from booksan.transport.base import HOLD
from booksan_client.upload import IN_FLIGHT
from tests.support.cluster import (
    Client,
    Cluster,
    kill,
    kill_process,
    running_cluster,
)
from tests.support.command import PATIENCE, Ended, wait_until

Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def submit(client: Client, cluster: Cluster, *more: str) -> Ended:
    return client.place.run(client.words(*more), cluster.servers)


def test_ten_clients_at_once_get_their_own_answers_and_leave_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    clients = [
        Client.make(tmp_path / f"c{seed}", seed, reviews=300 + 40 * seed, dirty=seed % 2 == 1)
        for seed in range(10)
    ]
    with ExitStack() as stack:
        running = [
            stack.enter_context(each.place.started(each.words(), cluster.servers))
            for each in clients
        ]
        ended = [each.place.ended(process) for each, process in zip(clients, running, strict=True)]
    assert [each.code for each in ended] == [0] * 10, [each.err for each in ended]
    for client in clients:
        client.check()
    cluster.assert_nothing_is_left()


def test_the_files_are_those_of_a_run_alone(cluster: Cluster, tmp_path: Path) -> None:
    client = Client.make(tmp_path / "one", 77, reviews=500, dirty=True)
    assert submit(client, cluster).code == 0
    alone = tmp_path / "alone"
    assert client.place.run(client.inputs.words("run", alone)).code == 0
    files = {path.name: path.read_bytes() for path in client.place.out.glob("[!.]*")}
    assert files == {path.name: path.read_bytes() for path in alone.glob("[!.]*")}
    assert "rejected.csv" in files


class Killer(threading.Thread):
    """Kills what it is told to, again when it is back, until it is stopped."""

    def __init__(self, victims: Callable[[], list[int]], most: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.kills = 0
        self._victims = victims
        self._most = most
        self._pause = pause
        self._stop_now = threading.Event()

    def run(self) -> None:
        killed: set[int] = set()
        while self.kills < self._most and not self._stop_now.wait(self._pause):
            fresh = [pid for pid in self._victims() if pid not in killed]
            if fresh:
                kill(fresh[0])
                killed.add(fresh[0])
                self.kills += 1

    def stop(self) -> None:
        self._stop_now.set()
        self.join(PATIENCE)


def test_the_broker_gateways_and_the_client_killed_again_and_again_change_no_byte(
    cluster: Cluster, tmp_path: Path, record_property: Record
) -> None:
    client = Client.make(tmp_path / "one", 5, reviews=3_000)
    small = ("--batch-bytes", "20000")
    broker = Killer(lambda: [pid] if (pid := cluster.broker_pid()) else [], 3, 1.0)
    gateways = Killer(lambda: cluster.pids("gateway"), 30, 1.5)
    broker.start()
    gateways.start()
    client_kills = 0
    for taken in (b'"taken":3', b'"taken":30', b'"taken":60'):
        with client.place.started(client.words(*small), cluster.servers) as process:
            reached = wait_for_journal(client, taken, process)
            if reached:
                kill_process(process)
                client_kills += 1
    begun, known = counts(client)
    ended = submit(client, cluster, *small)
    broker.join(PATIENCE)
    gateways.stop()
    assert ended.code == 0, ended.err
    client.check()
    resent = ended.document["resent"]
    assert resent == begun - known
    assert resent <= IN_FLIGHT
    assert (broker.kills, client_kills) == (3, 3)
    assert gateways.kills >= 3
    kills = {"broker": broker.kills, "gateway": gateways.kills, "client": client_kills}
    record_property("kills during one run on RabbitMQ", kills)
    record_property(f"batches sent again by the last client, of at most {IN_FLIGHT}", resent)
    cluster.assert_nothing_is_left()


def wait_for_journal(client: Client, words: bytes, process: "subprocess.Popen[bytes]") -> bool:
    """True when the client has noted this; False if it has ended before."""
    wait_until(lambda: words in client.journal() or process.poll() is not None, 2 * PATIENCE)
    return process.poll() is None


def counts(client: Client) -> tuple[int, int]:
    """Batches that were begun, and of those the ones known to be taken."""
    lines = client.journal().splitlines()
    return (
        sum(line.startswith(b'{"batch"') for line in lines),
        sum(line.startswith(b'{"taken"') for line in lines),
    )


def test_a_fast_client_does_not_make_queues_grow_past_their_bound(
    cluster: Cluster, tmp_path: Path, record_property: Record
) -> None:
    client = Client.make(tmp_path / "one", 6, reviews=6_000)
    stopped = cluster.pids("q5-sentiment")
    bound = QUEUE_LIMIT.messages + HOLD + IN_FLIGHT
    longest = 0
    small = ("--batch-bytes", "12000")
    with (
        client.place.started(client.words(*small), cluster.servers) as process,
        cluster.transport() as transport,
    ):
        # The books must be through, for reviews come only after them.
        assert wait_for_journal(client, b'"taken":20', process)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            stand_still = 0
            before = 0
            while stand_still < 20:
                taken = counts(client)[1]
                stand_still = stand_still + 1 if taken == before else 0
                before = taken
                longest = max(longest, *(transport.depth(q).messages for q in cluster.queues()))
                wait_until_held_back()
            assert process.poll() is None
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        ended = client.place.ended(process)
    assert ended.code == 0, ended.err
    client.check()
    assert QUEUE_LIMIT.messages <= longest <= bound
    record_property(f"messages in the longest queue, of at most {bound}", longest)


def wait_until_held_back() -> None:
    """A breath between two looks at the queues; nothing tells when a client begins to wait."""
    threading.Event().wait(0.25)


def test_a_cancelled_client_leaves_nothing_on_any_host(cluster: Cluster, tmp_path: Path) -> None:
    client = Client.make(tmp_path / "one", 8, reviews=2_000)
    with client.place.started(client.words("--batch-bytes", "20000"), cluster.servers) as process:
        assert wait_for_journal(client, b'"taken":30', process)
        kill_process(process)
    (state,) = client.place.state.glob("booksan/clients/*/client.json")
    name = state.read_text().split('"id": "')[1].split('"')[0]
    done = subprocess.run(
        [sys.executable, "-m", "booksan", "cancel", name],
        env=client.place.environment(cluster.servers),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cluster.assert_nothing_is_left()
