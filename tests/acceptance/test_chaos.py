"""Everything of a cluster killed again and again, by `booksan chaos`, while clients are at work."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from booksan.errors import EXIT_NOT_WELL
from tests.support.cluster import Client, Cluster, running_cluster
from tests.support.command import PATIENCE, Place, wait_until
from tests.support.drill import (
    assert_calm,
    chaos,
    summary_of,
    under_fire,
)
from tests.support.hosts import command

Record = Callable[[str, object], None]

EVERYTHING = "worker,gateway,supervisor,leader,host,broker,client"
EVERY = "worker=1s,gateway=2s,supervisor=6s,leader=7s,host=5s,broker=8s,client=4s"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("chaos")) as found:
        yield found


def test_whatever_is_killed_the_answers_are_the_same_to_the_last_byte(
    cluster: Cluster, tmp_path: Path, record_property: Record
) -> None:
    clients = [Client.make(tmp_path / f"c{n}", 40 + n, reviews=4_000) for n in range(3)]
    log = tmp_path / "chaos.jsonl"
    words = ("--target", EVERYTHING, "--every", EVERY, "--seed", "5", "--for", "20s")
    found, seconds = under_fire(cluster, clients, log, words, batch_bytes=20_000)
    kinds = found["kinds"]
    assert kinds["worker"]["kills"] >= 3
    assert len(kinds) >= 3
    events = events_in(log)
    assert sum(one["event"] == "kill" for one in events) == found["kills"]
    assert sum(one["event"] == "back" for one in events) == found["kills"]
    record_property(f"chaos: kills of three clients' {seconds:.0f} s", kinds)


def test_what_is_stopped_is_continued_when_chaos_is_interrupted(
    cluster: Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "chaos.jsonl"
    words = ("--target", "worker,gateway,broker", "--every", "300ms", "--seed", "1")
    pauses = ("--pause", "--pause-share", "1", "--pause-for", "10m")
    with chaos(cluster, log, *words, *pauses) as process:
        wait_until(lambda: log.exists() and log.read_text().count('"pause"') >= 5)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        found = summary_of(process)
    assert found["pauses"] >= 5
    assert found["kills"] == 0
    assert_calm(cluster)


def test_the_last_one_that_could_revive_the_others_is_spared(
    cluster: Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "chaos.jsonl"
    words = ("--target", "host,leader,supervisor", "--every", "100ms", "--for", "3s")
    with chaos(cluster, log, *words, "--seed", "3") as process:
        found = summary_of(process)
    assert found["kills"] >= 2
    assert found["not_back"] == []
    down: set[str] = set()
    for event in events_in(log):
        down = down | {event["name"]} if event["event"] == "kill" else down - {event["name"]}
        assert len(down) <= 2
    assert_calm(cluster)


def test_without_mercy_nobody_is_left_to_revive_them_and_that_is_told(
    cluster: Cluster, tmp_path: Path
) -> None:
    words = ("--target", "host", "--every", "50ms", "--for", "1s", "--patience", "1s")
    with chaos(cluster, tmp_path / "chaos.jsonl", *words, "--no-mercy", "--seed", "1") as process:
        found = summary_of(process)
    assert found["exit_code"] == EXIT_NOT_WELL
    assert found["kills"] == 3
    assert [one["kind"] for one in found["not_back"]] == ["host"] * 3
    up = ("cluster", "up", "three", "--with-broker", "--wait", str(PATIENCE))
    assert command(cluster.place, *up).code == 0
    assert_calm(cluster)


def events_in(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_without_a_cluster_there_is_nothing_to_kill(tmp_path: Path) -> None:
    done = command(Place(tmp_path), "chaos", "three")
    assert done.code == 2
    assert "no cluster in" in done.message
    done = command(Place(tmp_path), "chaos", "--target", "everybody")
    assert done.code == 2
    assert "there is no 'everybody'" in done.message
