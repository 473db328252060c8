"""Clients of all data sets at once on one cluster, while everything of it is killed."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.cluster import Client, Cluster, running_cluster
from tests.support.drill import under_fire

#: Rows of each client's second file, so that all are at work for about as long.
ROWS: Mapping[str, int] = {"aoe2": 20_000, "books": 5_000, "flights": 20_000, "steam": 12_000}
BATCH_BYTES = 40_000
KINDS = "worker,gateway,host,broker"
EVERY = "worker=1s,gateway=3s,host=6s,broker=6s"
#: With it each kind is hit for the first time within five seconds.
SEED = "115"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("sets")) as found:
        yield found


def test_clients_of_all_data_sets_get_their_answers_whatever_is_killed(
    cluster: Cluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    clients = [
        Client.of(name, tmp_path / name, 50 + number, rows=rows)
        for number, (name, rows) in enumerate(ROWS.items())
    ]
    words = ("--target", KINDS, "--every", EVERY, "--seed", SEED, "--for", "15s")
    log = tmp_path / "chaos.jsonl"
    found, seconds = under_fire(cluster, clients, log, words, batch_bytes=BATCH_BYTES)
    kinds = found["kinds"]
    assert kinds.keys() == set(KINDS.split(","))
    assert kinds["worker"]["kills"] >= 3
    record_property(f"chaos: kills of all data sets' {seconds:.0f} s", kinds)
