"""A cluster of three hosts on a RabbitMQ of its own, and clients that use it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest

from booksan.broker import find_server
from booksan.cluster.paths import ClusterRecord, read_record
from booksan.cluster.status import cluster_status
from booksan.generate.books import generate_books
from booksan.topology.parse import load_topology
from booksan.transport import Transport, open_transport
from tests.support.command import PATIENCE, Place, Words, wait_until
from tests.support.hosts import command, place_for_hosts, read_json
from tests.support.inputs import Inputs

PARAMS = {"q2.decades": 3, "q3.min_reviews": 5, "q5.percentile": 70}


@dataclass(frozen=True)
class Cluster:
    place: Place

    @cached_property
    def directory(self) -> Path:
        return self.place.state / "booksan/clusters/three"

    @property
    def record(self) -> ClusterRecord:
        record = read_record(self.directory)
        assert record is not None
        return record

    def status(self) -> dict[str, Any]:
        return cluster_status(self.directory, self.record)

    @cached_property
    def gateways(self) -> list[str]:
        return [str(url) for url in self.status()["gateways"]]

    @property
    def servers(self) -> dict[str, str]:
        return {"BOOKSAN_SERVER": ",".join(self.gateways)}

    def pids(self, worker: str) -> list[int]:
        """Of workers whose names begin so, on all hosts."""
        return [
            one["pid"]
            for host in self.status()["hosts"]
            for one in host["workers"]
            if one["name"].startswith(worker) and one["pid"] is not None
        ]

    def broker_pid(self) -> int | None:
        """Of the node itself, once it is ready."""
        broker = self.record.broker
        assert broker is not None
        found = read_json(Path(broker.directory) / "broker.json")
        return found["pid"] if found.get("ready") else None

    def transport(self) -> Transport:
        broker = self.record.broker
        assert broker is not None
        url = read_json(Path(broker.directory) / "broker.json")["url"]
        return open_transport(f"{url}#three")

    def queues(self) -> list[str]:
        counts = load_topology("three").shards
        return [f"{stage}.{shard}" for stage, count in counts.items() for shard in range(count)]

    def leftovers(self) -> list[str]:
        """What clients have left on the hosts' disks."""
        return [
            str(path)
            for host in self.record.hosts.values()
            for kind in ("clients", "letters")
            for path in Path(host.data_dir, kind).rglob("*")
            if kind == "clients" or path.is_file()
        ]

    def assert_nothing_is_left(self) -> None:
        # A reader that came in the very moment of a deletion may leave a file until the next tick.
        wait_until(lambda: not self.leftovers())
        with self.transport() as transport:
            for queue in self.queues():
                wait_until(lambda queue=queue: transport.depth(queue).messages == 0)  # type: ignore[misc]


@contextmanager
def running_cluster(root: Path) -> Iterator[Cluster]:
    if find_server() is None:
        pytest.skip("there is no rabbitmq-server: run scripts/rabbitmq to install it")
    with place_for_hosts(root) as place:
        words = ("cluster", "up", "three", "--with-broker", "--any-ports")
        done = command(place, *words, "--wait", str(PATIENCE))
        assert done.code == 0, done.err
        yield Cluster(place)
        assert command(place, "cluster", "down", "--wipe").code == 0
        assert not place.processes()


@dataclass(frozen=True)
class Client:
    """A user with files of their own."""

    place: Place
    inputs: Inputs

    @classmethod
    def of(cls, dataset: str, root: Path, seed: int, *, rows: int) -> "Client":
        return cls(Place(root), Inputs.make(dataset, root, seed, rows=rows))

    @classmethod
    def make(cls, root: Path, seed: int, *, reviews: int, dirty: bool = False) -> "Client":
        """One with books."""
        root.mkdir()
        made = generate_books(root, books=150, reviews=reviews, seed=seed, dirty=dirty)
        return cls(Place(root), Inputs("books", made.paths, PARAMS))

    def words(self, *more: str) -> Words:
        return self.inputs.words("submit", self.place.out, "--json", *more)

    def check(self) -> None:
        """It has got what the oracle says."""
        self.inputs.check(self.place.out)

    def journal(self) -> bytes:
        """What the client has noted of its batches; empty before it has."""
        found = b""
        with suppress(FileNotFoundError):
            for path in sorted(self.place.state.glob("booksan/clients/*/*.journal")):
                found += path.read_bytes()
        return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, 9)


def kill_process(process: "subprocess.Popen[bytes]") -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(process.pid).kill()
    process.wait(PATIENCE)
