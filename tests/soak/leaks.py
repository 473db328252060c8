"""Many runs through one cluster that nobody disturbs: does anything grow?"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.soak.cluster_part import OnCluster
from tests.soak.journal import Round
from tests.support.cluster import Cluster
from tests.support.data import Sample
from tests.support.drill import trees
from tests.support.gateway_host import HttpClient
from tests.support.sets import SETTINGS, sample_of

#: Per cent by which nothing may grow, and what is allowed anyway: bytes and files that come and go.
GROWTH = 10.0
SLACK = {"bytes": 8 << 20, "files": 4}
#: Runs at once.
THREADS = 4
#: What each process holds: bytes of memory, open files.
Sizes = Mapping[str, Mapping[str, int]]


class Leaks(OnCluster):
    name = "leaks"
    title = "Many runs without a restart"
    about = (
        "Small runs of all four data sets, four at once, through one cluster that nobody "
        "disturbs: memory (PSS) and open files of every process at the end, beside those after "
        "the first fifty runs. None may have grown by more than 10 %."
    )
    share = 0.5
    rounds = 1
    #: Runs before the first look, and in all.
    first, count = 50, 500

    def run(self, number: int) -> dict[str, Any]:
        before, after = run_many(self.cluster, self.first, self.count)
        return {
            "runs": self.count,
            "outcomes": {"right": self.count},
            "findings": grown(before, after),
            "figures": {what: growth(before, after, what) for what in SLACK},
        }

    @classmethod
    def seeds(cls, rounds: Sequence[Round]) -> str:
        return ""

    @classmethod
    def notes(cls, rounds: Sequence[Round]) -> Sequence[str]:
        return [
            f"After {one.runs} runs, all processes together: {name} {value:+.1f} %."
            for one in rounds
            for name, value in one.figures.items()
            if value is not None
        ]


def run_many(cluster: Cluster, first: int, count: int) -> tuple[Sizes, Sizes]:
    """What the processes hold after the first runs, and after all."""
    samples = [sample_of(name, 3, rows=30) for name in SETTINGS]

    def run(number: int) -> None:
        url = cluster.gateways[number % len(cluster.gateways)]
        with HttpClient(url, f"run-{number}", f"the secret of {number}, long enough") as client:
            run_one(client, samples[number % len(samples)])

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(first)))
        before = sizes(cluster)
        list(pool.map(run, range(first, count)))
    cluster.assert_nothing_is_left()
    return before, sizes(cluster)


def run_one(client: HttpClient, data: Sample) -> None:
    assert client.run(data)["state"] == "done"
    for query, content in data.answers.items():
        assert client.get(f"/results/{query}", format="csv").content == content, query
    assert client.http.post(f"{client.path}/acknowledge").status_code == 200


def grown(before: Sizes, after: Sizes) -> list[str]:
    """The processes that hold too much more."""
    assert before.keys() == after.keys(), "a process has died"
    return [
        f"{name.partition(' ')[0]} has grown from {old:,} to {new:,} {what}"
        for name in before
        for what, slack in SLACK.items()
        if (new := after[name][what]) > (old := before[name][what]) * (1 + GROWTH / 100)
        and new - old > slack
    ]


def growth(before: Sizes, after: Sizes, what: str) -> float:
    """By how many per cent all together."""
    old, new = (sum(one[what] for one in found.values()) for found in (before, after))
    return round(100 * (new - old) / old, 1)


def sizes(cluster: Cluster) -> Sizes:
    """Of every process of the hosts, by its number and its name."""
    status = cluster.status()
    names = {
        one["pid"]: f"{one['name']}@{host['name']}"
        for host in status["hosts"]
        for one in host["workers"]
    }
    names |= {host["pid"]: host["name"] for host in status["hosts"]}
    return {
        f"{names[process.pid]} ({process.pid})": {
            "bytes": process.memory_full_info().pss,
            "files": process.num_fds(),
        }
        for process in trees(cluster)
        if process.pid in names
    }
