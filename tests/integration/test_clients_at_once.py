"""Several clients through the same real workers, some of which are killed on the way."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from booksan.datasets import dataset_named
from booksan.gateway.uploads import Gateway
from booksan.home import HomeStatus, HomeView
from booksan.host.config import HostConfig, WorkerSpec, write_config
from booksan.host.handle import Host
from booksan.shards import queue_name
from booksan.spec import Spec
from booksan.state.readers import clients, progress
from booksan.tickets import load_secret
from booksan.transport.spool import Spool
from tests.support.data import Sample, csv_bytes, sample, shards

BOOKS = dataset_named("books")

SHARDS = shards(2, 2)
#: Long: workers that die again and again are slow on a busy machine.
DEADLINE = 240.0


class Client:
    """One client that sends its batches and waits for its answers, on a thread of its own."""

    def __init__(self, root: Path, gateway: Gateway, data: Sample, name: str) -> None:
        self.data = data
        self.gateway = gateway
        self.spec: Spec = data.spec(name, SHARDS)
        self.view = HomeView(root, self.spec.client, self.spec.home)
        self.answers: dict[str, bytes] = {}

    def run(self, before_release: Callable[[], None] = lambda: None) -> None:
        self.begin()
        for source in BOOKS.source:
            self.send(source)
        self.finish(before_release)

    def begin(self) -> HomeStatus:
        self.gateway.create(self.spec)
        return self.wait(partial(_has_permit, "books"))

    def send(self, source: str) -> None:
        status = self.wait(partial(_has_permit, source))
        batches = self.data.batches[source]
        for number in reversed(range(len(batches))):
            self.gateway.put(status.spec, source, number, batches[number])
        self.gateway.end(status.spec, source, len(batches))

    def finish(self, before_release: Callable[[], None] = lambda: None) -> None:
        status = self.wait(lambda status: status.done)
        self.answers = {
            query.name: csv_bytes(tuple(query.columns), self.view.answer(query))
            for query in BOOKS.queries
        }
        self.view.close()
        before_release()
        self.gateway.release(status.ticket, "done")

    def wait(self, ready: Callable[[HomeStatus], bool]) -> HomeStatus:
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            status = self.view.status()
            if status is not None and status.failed is not None:
                raise AssertionError(status.failed)
            if status is not None and ready(status):
                return status
            time.sleep(0.02)
        raise AssertionError(f"{self.spec.client} got no further")


def test_clients_at_once_get_their_own_answers_while_workers_are_killed(tmp_path: Path) -> None:
    """And nothing of them stays, in databases or in queues.

    The queues are looked at while the workers live. A worker that was killed at the very end is
    still starting when the last database is gone: what waits for it then (the word that a client
    is gone, or what its last life had in hand) it takes as soon as it is there.
    """
    workers = [WorkerSpec(stage, n) for stage, count in SHARDS.items() for n in range(count)]
    write_config(tmp_path, HostConfig(tuple(workers)))
    secret = load_secret(tmp_path)
    samples = [sample(seed, books=60, reviews=80, dirty=seed % 2 == 1) for seed in range(4)]
    with Host(tmp_path, {"POLARS_MAX_THREADS": "1"}) as host, Spool(tmp_path) as transport:
        gateway = Gateway(transport, (secret,))
        all_clients = [
            Client(tmp_path, gateway, data, f"client-{number}")
            for number, data in enumerate(samples)
        ]
        threads = [threading.Thread(target=client.run) for client in all_clients]
        for thread in threads:
            thread.start()
        kill_some(
            host,
            until=lambda: not any(thread.is_alive() for thread in threads),
            work=lambda: work_done(tmp_path),
        )
        for thread in threads:
            thread.join()
        for client in all_clients:
            assert client.answers == client.data.answers, client.spec.client
        wait_until_empty(tmp_path / "clients")
        wait_for(lambda: not waiting(transport))


def test_what_a_stopped_worker_leaves_in_its_queue_is_dropped_by_the_next_life(
    tmp_path: Path,
) -> None:
    """A stateless worker keeps nothing of a client, so its word that the client is gone may be the
    last thing in its queue, also after everything else of the client is deleted."""
    workers = [WorkerSpec(stage, n) for stage, count in SHARDS.items() for n in range(count)]
    write_config(tmp_path, HostConfig(tuple(workers)))
    client_data = sample(1, books=20, reviews=20)
    with Spool(tmp_path) as transport:
        with Host(tmp_path, {"POLARS_MAX_THREADS": "1"}) as host:
            client = Client(
                tmp_path, Gateway(transport, (load_secret(tmp_path),)), client_data, "client"
            )
            client.run(before_release=lambda: stop_worker(host, "q1-filter.1"))
            wait_until_empty(tmp_path / "clients")
            wait_for(lambda: waiting(transport) == {"q1-filter.1": 1})
            host.stop(timeout=0)
        assert waiting(transport) == {"q1-filter.1": 1}
        with Host(tmp_path, {"POLARS_MAX_THREADS": "1"}):
            wait_for(lambda: not waiting(transport))
        assert not any((tmp_path / "clients").iterdir())


def test_a_damaged_file_in_a_queue_becomes_a_letter_and_its_batch_is_sent_again(
    tmp_path: Path,
) -> None:
    """As a power failure may leave it: the name is there, and not all of its bytes."""
    workers = [WorkerSpec(stage, n) for stage, count in SHARDS.items() for n in range(count)]
    write_config(tmp_path, HostConfig(tuple(workers)))
    secret = load_secret(tmp_path)
    with Spool(tmp_path) as transport, Host(tmp_path, {"POLARS_MAX_THREADS": "1"}) as host:
        gateway = Gateway(transport, (secret,))
        client = Client(tmp_path, gateway, sample(2, books=40, reviews=40), "client")
        status = client.begin()
        stop_worker(host, "q2-decades.0")
        for number, batch in enumerate(client.data.batches["books"]):
            gateway.put(status.spec, "books", number, batch)
        first = min((tmp_path / "queues/q2-decades.0/messages").iterdir())
        os.truncate(first, first.stat().st_size // 2)
        stop_worker(host, "q2-decades.0", signal.SIGCONT)

        letters = tmp_path / "letters/q2-decades-0"
        wait_for(lambda: any(letters.glob("*.json")))
        about = json.loads(next(letters.glob("*.json")).read_text())
        assert "do not fit the lengths" in about["error"]
        wait_for(lambda: not waiting(transport))
        # All others are there, and this one comes again when it is found missing.
        for source in BOOKS.source:
            client.send(source)
        client.finish()
    assert client.answers == client.data.answers


def kill_some(host: Host, until: Callable[[], bool], work: Callable[[], int]) -> None:
    """Kills one worker after the other, each when the one before is back and work went on.

    On a busy machine a worker needs seconds to start: killing faster than that would prove only
    that nothing gets done.
    """
    number = 0
    before = -1
    while not until():
        status = host.status()
        assert status is not None
        if work() > before and all(worker.pid for worker in status.workers):
            before = work()
            victim = status.workers[number * 5 % len(status.workers)]
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
            number += 1
            wait_for(partial(_restarted_since, host, status.restarts))
        time.sleep(0.3)
    assert number > 0


def stop_worker(host: Host, name: str, signum: signal.Signals = signal.SIGSTOP) -> None:
    """It takes nothing any more, and is not missed either, until SIGCONT."""
    status = host.status()
    assert status is not None
    (pid,) = (worker.pid for worker in status.workers if worker.name == name)
    assert pid is not None
    os.kill(pid, signum)


def waiting(transport: Spool) -> dict[str, int]:
    """Messages in each queue that has some."""
    queues = [queue_name(stage, n) for stage, count in SHARDS.items() for n in range(count)]
    depths = {queue: transport.depth(queue).messages for queue in queues}
    return {queue: depth for queue, depth in depths.items() if depth}


def work_done(root: Path) -> int:
    """Batches that all shards have taken so far."""
    return sum(stream.batches for client in clients(root) for stream in progress(root, client))


def _has_permit(source: str, status: HomeStatus) -> bool:
    return source in status.permits


def _restarted_since(host: Host, restarts: int) -> bool:
    status = host.status()
    return status is not None and status.restarts > restarts


def wait_until_empty(directory: Path) -> None:
    wait_for(lambda: not any(directory.iterdir()))


def wait_for(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not ready():
        if time.monotonic() > deadline:
            pytest.fail("nothing happened")
        time.sleep(0.02)
