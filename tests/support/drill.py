"""Clients at work on a cluster while it is killed, and whether it is whole afterwards."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from booksan.chaos.view import HostView, Looker, View
from booksan.cluster.registry import ask_gateway
from booksan.membership.revive import STOPPED_FILE
from tests.support.cluster import Client, Cluster
from tests.support.command import PATIENCE, Words, wait_until

#: Files of a host that are there while it works, besides logs and the shards' databases.
KEPT = frozenset(
    {
        "clock.json",
        "election.json",
        "gateway-address.json",
        "gateway.json",
        "host-status.json",
        "host.json",
        "host.lock",
        "queues-address",
        "revival.lock",
        "revivals.json",
        "secret",
        "secret-also",
        "workers.lock",
    }
)


def look(cluster: Cluster) -> View:
    return Looker(cluster.directory).look()


def host_of(cluster: Cluster, name: str) -> HostView:
    found = look(cluster).host(name)
    assert found is not None
    return found


def leader_of(cluster: Cluster) -> str | None:
    return next((host.name for host in look(cluster).hosts if host.leads), None)


def agreed_leader(cluster: Cluster) -> str | None:
    """Whom all hosts follow."""
    follows = {host["follows"] for host in cluster.status()["hosts"]}
    return follows.pop() if len(follows) == 1 else None


def is_whole(cluster: Cluster) -> bool:
    """All workers of all hosts are at work, all gateways answer, and one leads."""
    view = look(cluster)
    return (
        all(host.whole and ask_gateway(host.gateway, host.name) is None for host in view.hosts)
        and agreed_leader(cluster) is not None
    )


def seconds_until_whole(cluster: Cluster, began: float) -> float:
    wait_until(lambda: is_whole(cluster))
    return time.monotonic() - began


def trees(cluster: Cluster) -> list[psutil.Process]:
    """The supervisors and the broker's keeper, with all that is below them."""
    status = cluster.status()
    roots = [host["pid"] for host in status["hosts"]] + [(status["broker"] or {}).get("keeper")]
    found = []
    for pid in filter(None, roots):
        try:
            root = psutil.Process(pid)
            found += [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return found


def strays(cluster: Cluster) -> list[psutil.Process]:
    """Processes of the cluster that belong to nobody, and dead ones that nobody has reaped."""
    ours = trees(cluster)
    orphans = [process for process in cluster.place.processes() if process not in ours]
    return orphans + [process for process in ours if _is_zombie(process)]


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def stale_files(cluster: Cluster) -> list[str]:
    """What should not be in the directories of hosts that are at work for nobody."""
    found = []
    for host in cluster.record.hosts.values():
        root = Path(host.data_dir)
        found += [str(path) for path in root.iterdir() if path.is_file() and path.name not in KEPT]
        found += [str(path) for path in root.rglob("*.tmp")]
        assert not (root / STOPPED_FILE).exists()
    return found


def assert_calm(cluster: Cluster) -> None:
    """Whole, without an orphan, a zombie or a stale file."""
    wait_until(lambda: is_whole(cluster))
    # A revival that came too late may be about to find out.
    wait_until(lambda: not strays(cluster))
    wait_until(lambda: not stale_files(cluster))


@dataclass
class Submitting:
    """A client whose command is started again whenever somebody kills it."""

    client: Client
    id: str
    environment: Mapping[str, str]
    words: Words
    process: "subprocess.Popen[str]" = field(init=False)
    starts: int = 0
    seconds: float | None = None

    def start(self) -> None:
        self.starts += 1
        self.process = subprocess.Popen(
            [sys.executable, "-m", "booksan", *map(str, self.words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(self.environment),
        )

    def look(self, began: float) -> bool:
        """True when it is done; a killed one is started again, as a user would."""
        code = self.process.poll()
        if self.seconds is not None:
            return True
        if code is None:
            return False
        out, err = self.process.communicate()
        assert "Traceback" not in out + err, err
        assert code in (0, -9), f"{self.id} ended with {code}: {out} {err}"
        if code == 0:
            self.seconds = time.monotonic() - began
        else:
            self.start()
        return code == 0

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def submitting(
    cluster: Cluster, clients: Sequence[Client], label: str, *more: str
) -> Iterator[list[Submitting]]:
    """In the state directory of the cluster's owner, so that chaos finds them by their locks."""
    env = cluster.place.environment(cluster.servers)
    with ExitStack() as stack:
        running = []
        for number, client in enumerate(clients):
            id = f"{label}-{number}"
            one = Submitting(client, id, env, client.words("--id", id, *more))
            one.start()
            stack.callback(one.end)
            running.append(one)
        yield running


def wait_for_all(running: Sequence[Submitting], patience: float) -> float:
    """The seconds until the last one was done."""
    began = time.monotonic()
    # Each is looked at in every turn, or a killed one would wait for the others.
    wait_until(lambda: sum(one.look(began) for one in running) == len(running), patience)
    return max(one.seconds or 0.0 for one in running)


@contextmanager
def chaos(cluster: Cluster, log: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "booksan", "chaos", "three", "--json", "--log", str(log)]
    with subprocess.Popen(
        [*command, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.place.environment(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def summary_of(process: "subprocess.Popen[str]", patience: float = 2 * PATIENCE) -> dict[str, Any]:
    out, err = process.communicate(timeout=patience)
    assert "Traceback" not in err, err
    found = json.loads(out)
    assert process.returncode == found["exit_code"]
    assert isinstance(found, dict)
    return found


def check_all(clients: Sequence[Client]) -> None:
    """What the oracle says, to the last byte; the files are taken away for the next run."""
    for client in clients:
        client.check()
        for path in client.place.out.iterdir():
            path.unlink()


def under_fire(
    cluster: Cluster,
    clients: Sequence[Client],
    log: Path,
    words: Sequence[str],
    *,
    batch_bytes: int,
    patience: float = 2 * PATIENCE,
) -> tuple[dict[str, Any], float]:
    """What chaos tells, and the seconds until the last client was done.

    All have their answers, and nothing is left of them and of the fire.
    """
    with submitting(cluster, clients, "fire", "--batch-bytes", str(batch_bytes)) as running:
        until = [word for one in running for word in ("--until", one.id)]
        with chaos(cluster, log, *words, *until) as process:
            seconds = wait_for_all(running, patience)
            found = summary_of(process)
    check_all(clients)
    assert found["not_back"] == []
    assert_calm(cluster)
    cluster.assert_nothing_is_left()
    return found, seconds


def returns(found: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Seconds until what was killed was back: median and worst of each kind."""
    return {kind: (row["median"], row["worst"]) for kind, row in found["kinds"].items()}
