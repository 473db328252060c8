"""A hundred thousand reviews of three clients on three hosts, while everything is killed."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from booksan.generate.books import generate_books
from tests.support.cluster import PARAMS, Client, Cluster, running_cluster
from tests.support.command import Place
from tests.support.drill import (
    check_all,
    returns,
    submitting,
    under_fire,
    wait_for_all,
)
from tests.support.inputs import Inputs

Record = Callable[[str, object], None]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

REVIEWS = (33_333, 33_333, 33_334)
BOOKS = 2_000
SEEDS = (1, 2, 3, 4, 5)
#: Bytes of a batch: hundreds of them for each client, so that kills fall everywhere.
BATCH_BYTES = 40_000
#: Kills that each seed has to bring, for a hundred in all.
LEAST_KILLS = 25
#: Seconds for a run under fire.
SOAK_PATIENCE = 1200.0

EVERYTHING = "worker,gateway,supervisor,leader,host,broker"
EVERY = "worker=1s,gateway=5s,supervisor=15s,leader=20s,host=15s,broker=30s"


@dataclass(frozen=True)
class Work:
    """Three clients, what they must get, and how long that takes in peace."""

    clients: Sequence[Client]
    seconds: float


def make_client(root: Path, seed: int, reviews: int) -> Client:
    root.mkdir()
    made = generate_books(root, books=BOOKS, reviews=reviews, seed=seed)
    return Client(Place(root), Inputs("books", made.paths, PARAMS))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    root = tmp_path_factory.mktemp("work")
    clients = [make_client(root / f"c{n}", 700 + n, count) for n, count in enumerate(REVIEWS)]
    with running_cluster(tmp_path_factory.mktemp("peace")) as cluster:
        seconds = in_peace(cluster, clients)
    return Work(clients, seconds)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as found:
        yield found


def in_peace(cluster: Cluster, clients: Sequence[Client]) -> float:
    """The seconds until the last client was done, while nobody kills anything."""
    with submitting(cluster, clients, "peace", "--batch-bytes", str(BATCH_BYTES)) as running:
        seconds = wait_for_all(running, SOAK_PATIENCE)
    check_all(clients)
    cluster.assert_nothing_is_left()
    return seconds


def fire_at(cluster: Cluster, work: Work, *words: str) -> tuple[dict[str, Any], float]:
    log = cluster.place.root / "chaos.jsonl"
    return under_fire(
        cluster, work.clients, log, words, batch_bytes=BATCH_BYTES, patience=SOAK_PATIENCE
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_a_hundred_thousand_reviews_give_the_same_answers(
    cluster: Cluster, work: Work, seed: int, record_property: Record
) -> None:
    words = ("--target", EVERYTHING, "--every", EVERY, "--seed", str(seed))
    found, seconds = fire_at(cluster, work, *words)
    kills = Counter({kind: row["kills"] for kind, row in found["kinds"].items()})
    record_property(f"seed {seed}: kills, {kills.total()} in all", dict(kills))
    record_property(f"seed {seed}: seconds to come back (median, worst)", returns(found))
    record_property(f"seed {seed}: run time", run_time(seconds, work))
    assert kills.total() >= LEAST_KILLS
    assert {"worker", "gateway", "host"} <= kills.keys()


def test_a_worker_killed_every_two_seconds_costs_less_than_twice_the_time(
    cluster: Cluster, work: Work, record_property: Record
) -> None:
    # Measured just before: the machine may be busier than it was for the other runs.
    work = replace(work, seconds=in_peace(cluster, work.clients))
    found, seconds = fire_at(cluster, work, "--target", "worker", "--every", "2s", "--seed", "9")
    kills = found["kinds"]["worker"]["kills"]
    record_property(f"a worker killed every 2 s, {kills} in all", run_time(seconds, work))
    assert kills >= 1
    assert seconds <= 2 * work.seconds


def run_time(seconds: float, work: Work) -> str:
    return f"{seconds:.0f} s, in peace {work.seconds:.0f} s ({seconds / work.seconds:.1f} times)"
