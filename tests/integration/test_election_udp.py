"""Hosts as processes of their own, over real UDP: killed, stopped, restarted, left."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from booksan.membership.socket import clock

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/simulation/election/program.py"
#: The machine may be very busy.
DEADLINE = 30.0
Recorder = Callable[[str, object], None]


class Member:
    """One host: its process, and what it has told so far."""

    def __init__(self, number: int, config: dict[str, Any], place: Path) -> None:
        self.number = number
        place.mkdir()
        self._config = {**config, "host": number, "data_dir": str(place)}
        self._log = place / "events.jsonl"
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), json.dumps(self._config)],
                stdin=subprocess.PIPE,
                stdout=log,
                env=environment,
            )

    @property
    def live(self) -> bool:
        return self._process is not None and self._process.poll() is None and not self.stopped

    def signal(self, number: signal.Signals) -> float:
        """Tell when, at the earliest, it was felt: this process may lose the processor after it."""
        assert self._process is not None
        at = clock()
        self._process.send_signal(number)
        self.stopped = number == signal.SIGSTOP
        return at

    def kill(self) -> float:
        assert self._process is not None
        at = self.signal(signal.SIGKILL)
        self.end()
        self._note("killed", at)
        return at

    def end(self) -> None:
        """Leave nothing behind."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def _note(self, kind: str, at: float) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"kind": kind, "at": at}) + "\n")

    def log(self) -> list[dict[str, Any]]:
        text = self._log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line["kind"] == kind]

    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def leader(self, since: float) -> int | None:
        """Whom it follows, if it has told so since then or before."""
        states = self.told("state")
        return states[-1]["leader"] if states and states[-1]["at"] >= since else None


class Cluster:
    def __init__(self, size: int, place: Path) -> None:
        ports = dict(zip(range(1, size + 1), free_ports(size), strict=True))
        config = {"secret": secrets.token_hex(16), "ports": ports}
        self.members = {number: Member(number, config, place / str(number)) for number in ports}
        self._started: dict[int, float] = {}

    def __getitem__(self, number: int) -> Member:
        return self.members[number]

    def start(self, *numbers: int) -> float:
        at = clock()
        for number in numbers:
            self[number].end()
            self._started[number] = clock()
            self[number].start()
        return at

    def wait_for_leader(self, number: int) -> float:
        """Wait until all live hosts follow it, and tell when it began to lead."""

        def agreed() -> bool:
            live = [member for member in self.members.values() if member.live]
            return all(one.leader(self._started[one.number]) == number for one in live)

        wait(agreed, f"all live hosts follow {number}")
        return float(self[number].told("leads")[-1]["at"])

    def wait_for_suspicion(self, by: int, of: int, since: float) -> float:
        def told() -> list[float]:
            found = [one for one in self[by].told("suspects") if one["host"] == of]
            return [one["at"] for one in found if one["at"] >= since]

        wait(lambda: bool(told()), f"host {by} suspects host {of}")
        return told()[0]

    def check_leaderships(self) -> None:
        """No two of all leaderships so far were at the same time."""
        spans = sorted(span for member in self.members.values() for span in leaderships(member))
        for earlier, later in pairwise(spans):
            assert earlier[1] <= later[0], f"two leaders at the same time: {earlier} and {later}"

    def end(self) -> None:
        for member in self.members.values():
            member.end()


def leaderships(member: Member) -> list[tuple[float, float]]:
    """From when until when it could act; a stop ends at the end of the lease."""
    spans: list[tuple[float, float]] = []
    begun: float | None = None
    for line in member.log():
        if line["kind"] == "leads":
            begun = line["at"]
        elif begun is not None and line["kind"] in ("stops", "killed"):
            spans.append((begun, max(begun, line.get("until", line["at"]))))
            begun = None
    return spans if begun is None else [*spans, (begun, clock())]


def wait(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < deadline, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.02)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[int], Cluster]]:
    clusters: list[Cluster] = []

    def begin(size: int) -> Cluster:
        cluster = Cluster(size, tmp_path)
        clusters.append(cluster)
        cluster.start(*cluster.members)
        cluster.wait_for_leader(size)
        return cluster

    yield begin
    for cluster in clusters:
        cluster.end()


def test_a_killed_leader_is_followed_suspected_and_leads_again_when_it_is_back(
    begin: Callable[[int], Cluster], record_property: Recorder
) -> None:
    cluster = begin(3)
    killed = cluster[3].kill()
    led = cluster.wait_for_leader(2)
    record_property("election over UDP, a killed leader is followed", f"{led - killed:.2f} s")
    suspected = cluster.wait_for_suspicion(by=2, of=3, since=killed)
    record_property("election over UDP, and suspected", f"{suspected - killed:.2f} s")
    started = cluster.start(3)
    led = cluster.wait_for_leader(3)
    record_property("election over UDP, back in the lead after a start", f"{led - started:.2f} s")
    cluster.check_leaderships()


def test_a_stopped_leader_is_followed_and_takes_the_lead_back_when_it_goes_on(
    begin: Callable[[int], Cluster], record_property: Recorder
) -> None:
    cluster = begin(3)
    stopped = cluster[3].signal(signal.SIGSTOP)
    led = cluster.wait_for_leader(2)
    record_property("election over UDP, a stopped leader is followed", f"{led - stopped:.2f} s")
    continued = cluster[3].signal(signal.SIGCONT)
    wait(lambda: cluster[3].told("leads")[-1]["at"] > continued, "host 3 leads again")
    led = cluster.wait_for_leader(3)
    record_property("election over UDP, and leads again", f"{led - continued:.2f} s")
    assert cluster[3].told("stops")[-1]["at"] >= continued
    cluster.check_leaderships()


def test_a_stopped_host_is_suspected_until_it_goes_on(
    begin: Callable[[int], Cluster], record_property: Recorder
) -> None:
    cluster = begin(3)
    stopped = cluster[1].signal(signal.SIGSTOP)
    suspected = cluster.wait_for_suspicion(by=3, of=1, since=stopped)
    record_property(
        "election over UDP, a stopped host is suspected", f"{suspected - stopped:.2f} s"
    )
    continued = cluster[1].signal(signal.SIGCONT)
    wait(
        lambda: any(
            one["host"] == 1 and one["at"] >= continued for one in cluster[3].told("healthy")
        ),
        "host 1 is healthy again",
    )
    cluster.check_leaderships()


def test_one_survivor_leads_and_misses_all_others(
    begin: Callable[[int], Cluster], record_property: Recorder
) -> None:
    cluster = begin(4)
    killed = max(cluster[number].kill() for number in (4, 2, 3))
    led = cluster.wait_for_leader(1)
    record_property("election over UDP, one survivor leads", f"{led - killed:.2f} s")
    for number in (2, 3, 4):
        cluster.wait_for_suspicion(by=1, of=number, since=killed)
    cluster.start(2, 3, 4)
    cluster.wait_for_leader(4)
    cluster.check_leaderships()


def test_a_leader_that_leaves_is_followed_at_once_and_never_suspected(
    begin: Callable[[int], Cluster], record_property: Recorder
) -> None:
    cluster = begin(4)
    left = cluster[4].signal(signal.SIGTERM)
    led = cluster.wait_for_leader(3)
    record_property("election over UDP, a leader that leaves is followed", f"{led - left:.2f} s")
    wait(lambda: cluster[4].exit_code() == 0, "host 4 ends")
    # Whoever is killed later is suspected, so the one that left would have been long before.
    killed = cluster[1].kill()
    cluster.wait_for_suspicion(by=3, of=1, since=killed)
    assert not [one for one in cluster[3].told("suspects") if one["host"] == 4]
    cluster.start(1, 4)
    cluster.wait_for_leader(4)
    cluster.check_leaderships()
