"""Supervisors on a network that breaks and is mended: they agree again by themselves."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from booksan.host.config import ElectionConfig, HostConfig, Peer, WorkerSpec, write_config
from booksan.host.status import HostStatus, read_status
from booksan.membership.member import Timing
from tests.support.network import Network, namespaces

Record = Callable[[str, object], None]

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0
NAMES = ("alpha", "beta", "gamma")
PORT = 7400


@dataclass
class Hosts:
    """A supervisor in each namespace."""

    root: Path
    network: Network
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, name: str) -> None:
        directory = self.root / name
        command = [sys.executable, "-P", "-m", "booksan.supervisor", str(directory)]
        with (directory / "log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*self.network.inside(name), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'client'}"},
            )

    def cut(self, name: str) -> None:
        self.network.cut(name)

    def mend(self, name: str) -> None:
        self.network.mend(name)

    def status(self, name: str) -> HostStatus | None:
        return read_status(self.root / name)

    def leaders(self) -> dict[str, str | None]:
        found = {name: self.status(name) for name in NAMES}
        return {name: status.leader if status else None for name, status in found.items()}

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(DEADLINE)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with namespaces(*NAMES) as network:
        found = Hosts(tmp_path, network)
        try:
            secret = secrets.token_bytes(32)
            for number, name in enumerate(NAMES, 1):
                prepare(tmp_path / name, number, name, secret)
                found.start(name)
            yield found
        finally:
            found.end()


def prepare(directory: Path, number: int, name: str, secret: bytes) -> None:
    directory.mkdir()
    (directory / "secret").write_bytes(secret)
    peers = {
        other: Peer(at, (f"10.77.0.{at}", PORT))
        for at, other in enumerate(NAMES, 1)
        if at != number
    }
    election = ElectionConfig(name, number, (f"10.77.0.{number}", PORT), peers)
    entry = "tests.integration.supervisor_entries:beats"
    workers = (WorkerSpec("stage", number),)
    write_config(directory, HostConfig(workers, entry, election=election, name=name))


def until(true: Callable[[], bool], what: Callable[[], object]) -> float:
    """Seconds that it took."""
    begin = time.monotonic()
    while not true():
        assert time.monotonic() - begin < DEADLINE, f"not in time: {what()}"
        time.sleep(0.02)
    return time.monotonic() - begin


def all_follow(hosts: Hosts, leader: str) -> float:
    wanted = dict.fromkeys(NAMES, leader)
    return until(lambda: hosts.leaders() == wanted, hosts.leaders)


def test_a_leader_that_is_cut_off_is_followed_and_leads_again_when_it_is_back(
    hosts: Hosts, record_property: Record
) -> None:
    all_follow(hosts, "gamma")
    hosts.cut("gamma")
    rest = {"alpha": "beta", "beta": "beta"}
    seconds = until(lambda: hosts.leaders().items() >= rest.items(), hosts.leaders)
    record_property("a leader cut off by the network is followed, s", round(seconds, 1))
    hosts.mend("gamma")
    seconds = all_follow(hosts, "gamma")
    record_property("joined again, it leads all, s", round(seconds, 1))
    terms = {status.term for name in NAMES if (status := hosts.status(name))}
    assert len(terms) == 1, terms


def test_a_host_that_is_cut_off_changes_nothing_for_the_others(
    hosts: Hosts, record_property: Record
) -> None:
    all_follow(hosts, "gamma")
    before = hosts.status("beta")
    assert before is not None
    hosts.cut("alpha")
    missed = until(lambda: "misses alpha" in events(hosts, "gamma"), hosts.leaders)
    record_property("a host cut off by the network is missed, s", round(missed, 1))
    hosts.mend("alpha")
    until(lambda: "alpha is back" in events(hosts, "gamma"), hosts.leaders)
    all_follow(hosts, "gamma")
    # Several questions in a row must go unanswered, however unlucky the moment.
    assert missed > Timing().suspicion / 2


def events(hosts: Hosts, name: str) -> str:
    lines = (hosts.root / name / "log").read_text().splitlines()
    return "\n".join(json.loads(line)["event"] for line in lines)
