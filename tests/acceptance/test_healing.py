"""A cluster heals itself: what is killed or stopped is at work again, and nothing is left over."""

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest

from booksan.cluster.processes import ProcessId, send, wait_gone
from booksan.host.logs import LOGS, SUPERVISOR_LOG
from tests.support.cluster import Client, Cluster, running_cluster
from tests.support.command import PATIENCE, wait_until
from tests.support.drill import (
    agreed_leader,
    assert_calm,
    host_of,
    leader_of,
    look,
    seconds_until_whole,
    submitting,
    wait_for_all,
)
from tests.support.hosts import command, read_json

Record = Callable[[str, object], None]
#: The host with the highest id, which leads when it lives.
HIGHEST = "gamma"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("healing")) as found:
        wait_until(lambda: agreed_leader(found) == HIGHEST)
        yield found


@pytest.fixture
def consumers(cluster: Cluster) -> Iterator[Callable[[str], int]]:
    """How many consumers a queue has, as the broker says: a worker with one is at work."""
    broker = cluster.record.broker
    assert broker is not None
    url = read_json(Path(broker.directory) / "broker.json")["url"]
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    try:
        yield lambda queue: int(
            channel.queue_declare(f"three.{queue}", passive=True).method.consumer_count
        )
    finally:
        connection.close()


def kill_all(*processes: ProcessId | None) -> float:
    """Monotonic time of the kill."""
    for process in processes:
        assert process is not None
        send(process, signal.SIGKILL)
    return time.monotonic()


def kill_host(cluster: Cluster, name: str) -> float:
    host = host_of(cluster, name)
    return kill_all(host.supervisor, *(worker.process for worker in host.workers))


def test_a_killed_worker_is_at_work_again(
    cluster: Cluster, consumers: Callable[[str], int], record_property: Record
) -> None:
    stages = ("q1-filter.0", "q3-join.0", "q3-join.1", "q5-sentiment.0", "results.1")
    took = [seconds_until_at_work(cluster, consumers, stage) for stage in stages]
    record_property("a killed worker takes messages again, s", figures(took))
    assert_calm(cluster)


def seconds_until_at_work(cluster: Cluster, consumers: Callable[[str], int], stage: str) -> float:
    wait_until(lambda: consumers(stage) == 1)
    (pid,) = cluster.pids(stage)
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    # Queues are exclusive, so that one consumer after the old one is gone must be the new one.
    wait_until(lambda: consumers(stage) == 0)
    wait_until(lambda: consumers(stage) == 1)
    took = time.monotonic() - began
    wait_until(lambda: cluster.pids(stage) not in ([], [pid]))
    return took


def test_a_host_killed_as_a_whole_comes_back_by_itself(
    cluster: Cluster, record_property: Record
) -> None:
    took = [seconds_until_whole(cluster, kill_host(cluster, name)) for name in ("alpha", "beta")]
    record_property("a killed host is whole again, s", figures(took))
    assert_calm(cluster)


def test_a_killed_leader_is_replaced_and_comes_back(
    cluster: Cluster, record_property: Record
) -> None:
    old = host_of(cluster, HIGHEST).supervisor
    began = kill_all(old)
    wait_until(lambda: leader_of(cluster) is not None)
    led = time.monotonic() - began
    back = seconds_until_whole(cluster, began)
    wait_until(lambda: agreed_leader(cluster) == HIGHEST)
    assert host_of(cluster, HIGHEST).supervisor != old
    record_property("after the leader's death another leads, all is whole, s", figures([led, back]))
    assert_calm(cluster)


def test_a_leader_that_is_stopped_and_continued_does_no_harm(
    cluster: Cluster, record_property: Record
) -> None:
    old = host_of(cluster, HIGHEST).supervisor
    assert old is not None
    send(old, signal.SIGSTOP)
    began = time.monotonic()
    try:
        wait_until(lambda: others_follow_another(cluster))
        led = time.monotonic() - began
    finally:
        send(old, signal.SIGCONT)
    wait_until(lambda: agreed_leader(cluster) == HIGHEST)
    back = seconds_until_whole(cluster, began)
    record_property("a stopped leader: another leads, it leads again, s", figures([led, back]))
    assert_calm(cluster)


def others_follow_another(cluster: Cluster) -> bool:
    hosts = [host for host in cluster.status()["hosts"] if host["name"] != HIGHEST]
    return all(host["follows"] not in (None, HIGHEST) for host in hosts)


def test_one_host_brings_back_all_the_others(cluster: Cluster, record_property: Record) -> None:
    for name in ("beta", HIGHEST):
        began = kill_host(cluster, name)
    back = seconds_until_whole(cluster, began)
    wait_until(lambda: agreed_leader(cluster) == HIGHEST)
    record_property("all hosts but the lowest killed, all is whole, s", f"{back:.1f}")
    assert_calm(cluster)


def test_a_busy_cluster_ends_in_order_and_goes_on_later_where_it_was(
    cluster: Cluster, tmp_path: Path, record_property: Record
) -> None:
    clients = [Client.make(tmp_path / f"c{n}", 60 + n, reviews=2_000) for n in range(3)]
    with submitting(cluster, clients, "busy", "--batch-bytes", "20000") as running:
        wait_until(lambda: all(taken(cluster, one.id) >= 12 for one in running))
        processes = [
            process
            for host in look(cluster).hosts
            for process in (host.supervisor, *(worker.process for worker in host.workers))
            if process is not None
        ]
        sizes = {name: len(supervisor_log(cluster, name)) for name in cluster.record.hosts}
        began = time.monotonic()
        assert command(cluster.place, "cluster", "down").code == 0
        ended = time.monotonic() - began
        assert not wait_gone(processes, 0)
        for name, size in sizes.items():
            said = supervisor_log(cluster, name)[size:]
            assert "stopped" in said
            assert "reviv" not in said
            assert "did not end in time" not in said
        assert all(one.process.poll() is None for one in running), "clients wait for it"
        words = ("cluster", "up", "three", "--with-broker", "--wait", str(PATIENCE))
        assert command(cluster.place, *words).code == 0
        wait_for_all(running, 2 * PATIENCE)
    for client in clients:
        client.check()
    record_property("a busy cluster of three hosts and a broker ends, s", f"{ended:.1f}")
    assert ended < PATIENCE / 3
    wait_until(lambda: agreed_leader(cluster) == HIGHEST)
    assert_calm(cluster)
    cluster.assert_nothing_is_left()


def test_a_cluster_that_is_stopped_while_a_host_is_revived_stays_stopped(
    cluster: Cluster, record_property: Record
) -> None:
    size = len(supervisor_log(cluster, HIGHEST))
    kill_host(cluster, "alpha")
    wait_until(lambda: "revives alpha" in supervisor_log(cluster, HIGHEST)[size:])
    began = time.monotonic()
    assert command(cluster.place, "cluster", "down").code == 0
    record_property("a cluster ends while it revives, s", f"{time.monotonic() - began:.1f}")
    assert not cluster.place.processes()
    assert [host.supervisor for host in look(cluster).hosts] == [None] * 3
    words = ("cluster", "up", "three", "--with-broker", "--wait", str(PATIENCE))
    assert command(cluster.place, *words).code == 0
    wait_until(lambda: agreed_leader(cluster) == HIGHEST)
    assert_calm(cluster)


def taken(cluster: Cluster, id: str) -> int:
    """Batches of which the client knows that they were taken."""
    clients = cluster.place.state / "booksan/clients"
    for path in clients.glob("*/client.json"):
        if f'"{id}"' in path.read_text():
            lines = [each.read_bytes() for each in path.parent.glob("*.journal")]
            return sum(text.count(b'{"taken"') for text in lines)
    return 0


def supervisor_log(cluster: Cluster, name: str) -> str:
    return (Path(cluster.record.hosts[name].data_dir) / LOGS / SUPERVISOR_LOG).read_text()


def figures(seconds: list[float]) -> str:
    shown = ", ".join(f"{one:.1f}" for one in seconds)
    return f"{shown} (median {statistics.median(seconds):.1f})"
