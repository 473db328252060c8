"""450,000 rows of all four data sets on three hosts, while everything is killed."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.cluster import Client, Cluster, running_cluster
from tests.support.drill import returns, under_fire

Record = Callable[[str, object], None]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

#: Rows of each client's second file, so that all are at work for about as long.
ROWS: Mapping[str, int] = {"aoe2": 180_000, "books": 30_000, "flights": 150_000, "steam": 90_000}
SEEDS = (1, 2, 3)
BATCH_BYTES = 60_000
#: Kills that each seed has to bring.
LEAST_KILLS = 25
#: Seconds for a run under fire.
SOAK_PATIENCE = 1200.0

EVERYTHING = "worker,gateway,supervisor,leader,host,broker"
#: A host needs many seconds to come back on a busy machine: if one is always down, nothing is done.
EVERY = "worker=1s,gateway=5s,supervisor=25s,leader=25s,host=15s,broker=20s"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Client]:
    root = tmp_path_factory.mktemp("work")
    return [
        Client.of(name, root / name, 800 + number, rows=rows)
        for number, (name, rows) in enumerate(ROWS.items())
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as found:
        yield found


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_clients_of_all_data_sets_get_their_answers(
    cluster: Cluster, clients: Sequence[Client], seed: int, record_property: Record
) -> None:
    words = ("--target", EVERYTHING, "--every", EVERY, "--seed", str(seed))
    log = cluster.place.root / "chaos.jsonl"
    found, seconds = under_fire(
        cluster, clients, log, words, batch_bytes=BATCH_BYTES, patience=SOAK_PATIENCE
    )
    kills = Counter({kind: row["kills"] for kind, row in found["kinds"].items()})
    told = f"all data sets, seed {seed}"
    record_property(f"{told}: kills in {seconds:.0f} s, {kills.total()} in all", dict(kills))
    record_property(f"{told}: seconds to come back (median, worst)", returns(found))
    assert kills.total() >= LEAST_KILLS
    assert {"worker", "gateway", "host"} <= kills.keys()
