"""Hosts picked by hand are hosts like all others: they find, elect, watch and revive each other."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from booksan.errors import EXIT_NOT_WELL
from booksan.host.status import supervisor_pid
from tests.support.cluster import Client
from tests.support.command import PATIENCE, Place, wait_until
from tests.support.hosts import command, place_for_hosts, read_json

#: Together all stages of books.
JOINS = "q3-join,q5-sentiment,results"
REST = "q1-filter,q2-decades,q4-top,q5-percentile"


@dataclass
class Picked:
    """`booksan host --stages STAGES`, and nothing else."""

    place: Place
    stages: str
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def data_dir(self) -> Path:
        name = "-".join(sorted(self.stages.split(",")))
        return self.place.state / "booksan/hosts/single" / name

    @property
    def pid(self) -> int | None:
        return supervisor_pid(self.data_dir)

    @property
    def leader(self) -> str | None:
        return read_json(self.data_dir / "host-status.json").get("leader")

    @property
    def url(self) -> str:
        return f"http://{read_json(self.data_dir / 'gateway.json')['listen']}"

    def health(self) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            connection.request("GET", "/v1/health")
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except OSError as error:
            return 0, {"status": str(error)}
        finally:
            connection.close()

    def is_well(self) -> bool:
        running = read_json(self.data_dir / "host-status.json").get("state") == "running"
        return running and self.pid is not None and self.health()[0] == 200

    def kill(self) -> int:
        """Its supervisor, with -9; everything below dies with it."""
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    def is_revived(self, old: int) -> bool:
        return self.pid not in (None, old) and self.is_well()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


@pytest.fixture
def picked(place: Place) -> Iterator[tuple[Picked, Picked]]:
    with ExitStack() as stack:
        hosts = []
        for stages in (JOINS, REST):
            process = stack.enter_context(place.started(["host", "--stages", stages]))
            hosts.append(Picked(place, stages, process))
        wait_until(lambda: all(host.pid is not None for host in hosts))
        wait_until(lambda: all(host.is_well() for host in hosts))
        joins, rest = hosts
        yield joins, rest


def submitting(client: Client, host: Picked) -> "subprocess.Popen[bytes]":
    words = client.words("--server", host.url, "--batch-bytes", "4096")
    return subprocess.Popen(
        [sys.executable, "-m", "booksan", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=client.place.environment(),
    )


def test_two_hosts_that_share_the_stages_of_books_heal_each_other(
    picked: tuple[Picked, Picked], tmp_path: Path
) -> None:
    wait_until(lambda: len({host.leader for host in picked} - {None}) == 1)
    addresses = [host.url for host in picked]
    clients = [
        Client.make(tmp_path / f"client-{number}", seed=number, reviews=4000) for number in (1, 2)
    ]
    commands = [submitting(client, host) for client, host in zip(clients, picked, strict=True)]
    try:
        for host, client in zip(picked, reversed(clients), strict=True):
            wait_until(client.journal)
            old = host.kill()
            wait_until(lambda host=host, old=old: host.is_revived(old))  # type: ignore[misc]
        for command_, client in zip(commands, clients, strict=True):
            _, err = command_.communicate(timeout=PATIENCE)
            assert command_.returncode == 0, err.decode()
            client.check()
    finally:
        for command_ in commands:
            command_.kill()
            command_.communicate()
    assert [host.url for host in picked] == addresses
    # Ended in order, nobody brings them back.
    for host in picked:
        pid = host.pid
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda host=host: host.pid is None)  # type: ignore[misc]
    assert [host.pid for host in picked] == [None, None]


def test_a_gateway_is_not_well_while_the_home_cannot_be_reached(place: Place) -> None:
    alone = Picked(place, REST)
    with place.started(["host", "--stages", REST]):
        wait_until(lambda: alone.pid is not None)
        wait_until(lambda: alone.health()[1]["status"] == "home_away")
        status, found = alone.health()
        assert (status, found["away"]) == (503, ["results.0"])
        other = Picked(place, JOINS)
        with place.started(["host", "--stages", JOINS]):
            # Nobody has to be told: the first one finds the second.
            wait_until(lambda: alone.is_well() and other.is_well())
            wait_until(lambda: alone.leader is not None and alone.leader == other.leader)
            refused = command(place, "host", "--stages", "q3-join,q1-first")
            assert refused.code == 2
            assert "q3-join.0 is run by another host on this machine" in refused.message
            assert "pick other shards" in refused.message


def test_a_look_at_the_cluster_shows_hosts_picked_by_hand_and_chaos_hits_them(
    picked: tuple[Picked, Picked], place: Place
) -> None:
    done = command(place, "cluster", "status", "--json")
    found = done.document
    assert (done.code, found["name"], found["running"]) == (0, "single", True)
    assert {host["pid"] for host in found["hosts"]} == {host.pid for host in picked}
    assert set(found["gateways"]) == {host.url for host in picked}
    assert found["queues"].startswith("spool:")
    workers = [worker for host in found["hosts"] for worker in host["workers"]]
    assert all(one["queue"] == 0 for one in workers if one["name"] != "gateway.0")
    words = ("chaos", "--target", "worker,supervisor", "--every", "worker=1s,supervisor=3s")
    hit = command(place, *words, "--for", "5s", "--seed", "2", "--json")
    assert hit.code == 0, hit.out + hit.err
    assert hit.document["kinds"].keys() == {"worker", "supervisor"}
    wait_until(lambda: all(host.is_well() for host in picked))

    for host in picked:
        assert host.pid is not None
        os.kill(host.pid, signal.SIGTERM)
        wait_until(lambda host=host: host.pid is None)  # type: ignore[misc]
    ended = command(place, "cluster", "status")
    assert ended.code == EXIT_NOT_WELL
    assert "no cluster in" in ended.message
