"""Rounds with real processes: hosts on RabbitMQ, clients of all data sets, all kinds of fire."""

import json
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from booksan.broker import find_server
from tests.soak.journal import Round
from tests.soak.parts import Part
from tests.support.cluster import Client, Cluster, running_cluster
from tests.support.command import wait_until
from tests.support.drill import assert_calm, chaos, submitting, summary_of, wait_for_all
from tests.support.proxy import Proxy

#: Rows of each client's second file, so that all are at work for about as long.
ROWS: Mapping[str, int] = {"aoe2": 15_000, "books": 3_000, "flights": 12_000, "steam": 8_000}
#: How many different files there are for each data set.
SETS = 2
BATCH_BYTES = 20_000
#: Seconds that the fire burns at most, and for a round after that.
BURN = 60.0
PATIENCE = 600.0
EVERY = (
    "worker=1s,gateway=4s,supervisor=18s,leader=20s,host=15s,broker=20s,client=6s",
    "worker=500ms,gateway=3s,client=3s",
    "supervisor=12s,leader=14s,host=12s,client=5s",
    "worker=2s,gateway=4s,broker=10s",
)
#: Bytes for each second of a slow link.
SLOW = 200_000.0
#: Of a broker that nobody disturbs.
WATERMARK = "0.4"
#: What happens to whoever speaks with a broker that is down.
TROUBLE = (psutil.Error, subprocess.SubprocessError, OSError)


class Fire(threading.Thread):
    """What `booksan chaos` does not do: alarms of the broker, connections that hang or close."""

    def __init__(self, cluster: Cluster, proxies: Sequence[Proxy], seed: int) -> None:
        super().__init__(name="fire")
        self._cluster = cluster
        self._proxies = proxies
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self.lit: Counter[str] = Counter()

    def run(self) -> None:
        acts = (self._hang, self._close, self._slow, self._one_way, self._alarm, self._drop_broker)
        end = time.monotonic() + BURN
        while not self._over.wait(self._chance.uniform(0.5, 3.0)) and time.monotonic() < end:
            # A broker that is down has neither memory nor connections.
            with suppress(*TROUBLE):
                self._chance.choice(acts)()

    def end(self) -> None:
        self._over.set()
        self.join()
        for proxy in self._proxies:
            proxy.mend()
        # One that was stopped, or is just starting, hears it later.
        wait_until(self._calm)

    def _for_a_while(self, begin: Callable[[], None], end: Callable[[], object], kind: str) -> None:
        begin()
        self.lit[kind] += 1
        self._over.wait(self._chance.uniform(0.5, 5.0))
        end()

    def _hang(self) -> None:
        proxy = self._chance.choice(self._proxies)
        self._for_a_while(proxy.hang, proxy.mend, "connections that hang")

    def _one_way(self) -> None:
        proxy, up = self._chance.choice(self._proxies), self._chance.random() < 0.5
        self._for_a_while(lambda: proxy.cut(up=up), proxy.mend, "connections cut one way")

    def _slow(self) -> None:
        proxy = self._chance.choice(self._proxies)
        self._for_a_while(lambda: proxy.slow(SLOW), proxy.mend, "slow links")

    def _close(self) -> None:
        if self._chance.choice(self._proxies).close_all():
            self.lit["connections closed"] += 1

    def _alarm(self) -> None:
        def begin() -> None:
            self._control("set_vm_memory_high_watermark", "0")

        self._for_a_while(begin, self._calm, "memory alarms")

    def _calm(self) -> bool:
        with suppress(*TROUBLE):
            self._control("set_vm_memory_high_watermark", WATERMARK)
            return True
        return False

    def _drop_broker(self) -> None:
        self._control("close_all_connections", "a test")
        self.lit["broker's connections closed"] += 1

    def _control(self, *words: str) -> None:
        pid = self._cluster.broker_pid()
        server = find_server()
        if pid is None or server is None:
            raise ProcessLookupError("the broker is not ready")
        subprocess.run(
            [server.with_name("rabbitmqctl"), "--node", "booksan@localhost", *words],
            env=psutil.Process(pid).environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=True,
        )


def files_of(out: Path) -> dict[str, bytes]:
    """All answers and rejected rows; a hidden file tells whose they are."""
    return {path.name: path.read_bytes() for path in out.glob("[!.]*")}


def differing(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> list[str]:
    names = sorted(found.keys() | expected.keys())
    return [name for name in names if found.get(name) != expected.get(name)]


class OnCluster(Part):
    """Parts that need a cluster, which is begun with the first round and kept."""

    @property
    def lacks(self) -> str | None:
        return None if find_server() else "there is no rabbitmq-server"

    @cached_property
    def cluster(self) -> Cluster:
        return self.stack.enter_context(running_cluster(self.root / "cluster"))


class Processes(OnCluster):
    name = "processes"
    title = "Real processes"
    about = (
        "Three hosts on RabbitMQ with clients of all four data sets at once. `booksan chaos` kills "
        "or stops workers, gateways, supervisors, leaders, hosts, the broker and clients; clients "
        "reach the gateways through proxies that hang, close, slow down and cut one way; the "
        "broker has memory alarms and drops all connections. Every file that a client wrote is "
        "compared with that of an undisturbed run and with the oracle."
    )
    share = 3.0

    @cached_property
    def proxies(self) -> list[Proxy]:
        found = []
        for url in self.cluster.gateways:
            parts = urlsplit(url)
            assert parts.hostname is not None
            assert parts.port is not None
            found.append(self.stack.enter_context(Proxy((parts.hostname, parts.port))))
        return found

    @cached_property
    def sets(self) -> list[tuple[list[Client], list[dict[str, bytes]]]]:
        """Clients with the files that they write while nobody disturbs them."""
        found = []
        for number in range(SETS):
            clients = [self._client(name, number) for name in ROWS]
            with submitting(self.cluster, clients, f"peace{number}") as running:
                wait_for_all(running, PATIENCE)
            for client in clients:
                client.check()
            found.append((clients, [files_of(client.place.out) for client in clients]))
        return found

    def _client(self, name: str, number: int) -> Client:
        root = self.root / f"{name}-{number}"
        return Client.of(name, root, 800 + number, rows=ROWS[name])

    def run(self, number: int) -> dict[str, Any]:
        clients, expected = self.sets[number % SETS]
        for client in clients:
            for path in client.place.out.iterdir():
                path.unlink()
        found, lit = self._burn(clients, number)
        findings = [
            f"round {number}: {client.inputs.dataset}: {name} is not as in peace"
            for client, files in zip(clients, expected, strict=True)
            for name in differing(files_of(client.place.out), files)
        ]
        findings += [f"round {number}: not back: {one['name']}" for one in found["not_back"]]
        assert_calm(self.cluster)
        self.cluster.assert_nothing_is_left()
        wrong = min(len(clients), len(findings))
        return {
            "runs": len(clients),
            "faults": dict(_strikes(found) + lit),
            "returns": _returns(self.root / "chaos.jsonl"),
            "outcomes": {"right": len(clients) - wrong, "wrong": wrong},
            "findings": findings,
            "figures": {"load": round(os.getloadavg()[0], 1)},
        }

    @classmethod
    def notes(cls, rounds: Sequence[Round]) -> Sequence[str]:
        loads = [load for one in rounds if (load := one.figures.get("load")) is not None]
        if not loads:
            return []
        between = " to ".join(f"{one:g}" for one in sorted({min(loads), max(loads)}))
        words = f"{os.cpu_count()} cores and a load of {between}"
        return [f"Times to come back are those of a machine with {words}."]

    def _burn(self, clients: Sequence[Client], number: int) -> tuple[dict[str, Any], Counter[str]]:
        log = self.root / "chaos.jsonl"
        log.unlink(missing_ok=True)
        every = EVERY[number % len(EVERY)]
        words = ["--target", ",".join(one.partition("=")[0] for one in every.split(","))]
        words += ["--every", every, "--seed", str(number), "--pause", "--pause-share", "0.3"]
        words += ["--for", f"{BURN:.0f}s", "--patience", f"{PATIENCE:.0f}s"]
        fire = Fire(self.cluster, self.proxies, number)
        with ExitStack() as stack:
            running = stack.enter_context(self._submitting(clients, f"fire{number}"))
            until = [word for one in running for word in ("--until", one.id)]
            process = stack.enter_context(chaos(self.cluster, log, *words, *until))
            fire.start()
            stack.callback(fire.end)
            wait_for_all(running, PATIENCE)
            found = summary_of(process, PATIENCE)
        return found, fire.lit

    @contextmanager
    def _submitting(self, clients: Sequence[Client], label: str) -> Iterator[Any]:
        more = ["--batch-bytes", str(BATCH_BYTES)]
        for proxy in self.proxies:
            more += ["--server", "http://{}:{}".format(*proxy.address)]
        with submitting(self.cluster, clients, label, *more) as running:
            yield running


def _strikes(found: Mapping[str, Any]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for kind, row in found["kinds"].items():
        counts[f"{kind} killed"] += row["kills"]
        counts[f"{kind} stopped"] += row["pauses"]
    return +counts


def _returns(log: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "back":
            found.setdefault(event["kind"], []).append(event["seconds"])
    return found
