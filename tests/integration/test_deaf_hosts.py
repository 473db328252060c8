"""Hosts that cannot hear each other: nobody is killed for it, and whoever hangs still is."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from booksan.cluster.paths import _free_ports
from booksan.host.config import ElectionConfig, HostConfig, Peer, WorkerSpec, write_config
from booksan.host.logs import LOGS, SUPERVISOR_LOG
from booksan.host.status import read_status, supervisor_pid
from booksan.tickets import SECRET_ALSO_FILE, SECRET_FILE
from tests.support.command import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
NAMES = ("alpha", "beta", "gamma")
#: Seconds that deaf hosts are watched: each is asked for its heartbeat several times in them.
WATCHED = float(os.environ.get("BOOKSAN_WATCHED_SECONDS", "30"))
OLD, NEW = b"the old secret of these hosts", b"the new secret of these hosts"


@dataclass
class Hosts:
    """Three supervisors on this machine that revive each other."""

    root: Path
    ports: Mapping[str, int]

    def directory(self, name: str) -> Path:
        return self.root / name

    def prepare(self, name: str, secret: bytes, also: bytes | None = None) -> None:
        directory = self.directory(name)
        (directory / LOGS).mkdir(parents=True, exist_ok=True)
        (directory / SECRET_FILE).write_bytes(secret)
        (directory / SECRET_ALSO_FILE).unlink(missing_ok=True)
        if also is not None:
            (directory / SECRET_ALSO_FILE).write_bytes(also)
        others = [other for other in NAMES if other != name]
        election = ElectionConfig(
            name,
            NAMES.index(name) + 1,
            ("127.0.0.1", self.ports[name]),
            {one: Peer(NAMES.index(one) + 1, ("127.0.0.1", self.ports[one])) for one in others},
            {one: str(self.directory(one)) for one in others},
        )
        workers = (WorkerSpec("stage", 0),)
        entry = "tests.integration.supervisor_entries:beats"
        write_config(directory, HostConfig(workers, entry, election=election, name=name))

    def start(self, name: str) -> None:
        directory = self.directory(name)
        with (directory / LOGS / SUPERVISOR_LOG).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "booksan.supervisor", str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'client'}"},
            )
        process.returncode = 0
        # The others may have been quicker to start it.
        wait_until(lambda: supervisor_pid(directory) is not None)

    def restart(self, name: str, secret: bytes, also: bytes | None = None) -> None:
        """As an operator does: stop it in order, and start it again with other secrets."""
        pid = supervisor_pid(self.directory(name))
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: supervisor_pid(self.directory(name)) is None)
        (self.directory(name) / "host-status.json").unlink(missing_ok=True)
        self.prepare(name, secret, also)
        self.start(name)

    def pids(self) -> dict[str, int | None]:
        return {name: supervisor_pid(self.directory(name)) for name in NAMES}

    def leaders(self) -> set[str | None]:
        found = [read_status(self.directory(name)) for name in NAMES]
        return {one.leader if one else None for one in found}

    def events(self, name: str) -> list[str]:
        lines = (self.directory(name) / LOGS / SUPERVISOR_LOG).read_text().splitlines()
        return [json.loads(line)["event"] for line in lines]

    def lives(self, name: str) -> int:
        return sum(event.endswith(" workers") for event in self.events(name))

    def left_alone(self, name: str) -> list[str]:
        """Of whom this host says that they are only deaf."""
        return [one.split()[0] for one in self.events(name) if one.endswith("it is left alone")]

    def end(self) -> None:
        for _ in range(2):
            found = [one for one in psutil.process_iter() if self._is_mine(one)]
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(found, timeout=PATIENCE)

    def _is_mine(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return any(word.startswith(str(self.root)) for word in process.cmdline())
        return False


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    free = _free_ports()
    found = Hosts(tmp_path, {name: next(free) for name in NAMES})
    try:
        yield found
    finally:
        found.end()


def test_a_host_with_another_secret_is_left_alone_and_leaves_the_others_alone(
    hosts: Hosts,
) -> None:
    for name in NAMES:
        hosts.prepare(name, NEW if name == "gamma" else OLD)
        hosts.start(name)
    began = hosts.pids()
    wait_until(lambda: hosts.left_alone("beta") == ["gamma"])
    wait_until(lambda: sorted(hosts.left_alone("gamma")) == ["alpha", "beta"])
    deadline = time.monotonic() + WATCHED
    while time.monotonic() < deadline:
        assert hosts.pids() == began
        time.sleep(0.1)
    assert [hosts.lives(name) for name in NAMES] == [1, 1, 1]
    assert hosts.left_alone("beta") == ["gamma"], "it is told once"
    # One that is deaf and hangs as well is dead, for all that anybody can tell.
    assert began["gamma"] is not None
    os.kill(began["gamma"], signal.SIGSTOP)
    wait_until(lambda: hosts.pids()["gamma"] not in (None, began["gamma"]))
    assert {**hosts.pids(), "gamma": 0} == {**began, "gamma": 0}
    # With the right secret it is one of them again.
    hosts.restart("gamma", OLD)
    wait_until(lambda: hosts.leaders() == {"gamma"})


def test_the_secret_is_changed_host_by_host_and_nobody_is_missed(hosts: Hosts) -> None:
    for name in NAMES:
        hosts.prepare(name, OLD)
        hosts.start(name)
    wait_until(lambda: hosts.leaders() == {"gamma"})
    for secret, also in ((OLD, NEW), (NEW, OLD), (NEW, None)):
        for name in NAMES:
            before = hosts.pids()
            hosts.restart(name, secret, also)
            wait_until(lambda: hosts.leaders() == {"gamma"})
            assert {**hosts.pids(), name: 0} == {**before, name: 0}
    assert [hosts.lives(name) for name in NAMES] == [4, 4, 4]
    said = [event for name in NAMES for event in hosts.events(name)]
    assert not [event for event in said if "left alone" in event or "kills the old" in event]


def test_a_host_that_is_stopped_is_still_healed(hosts: Hosts) -> None:
    secret = secrets.token_bytes(32)
    for name in NAMES:
        hosts.prepare(name, secret)
        hosts.start(name)
    wait_until(lambda: hosts.leaders() == {"gamma"})
    for name in ("alpha", "gamma"):
        old = hosts.pids()[name]
        assert old is not None
        os.kill(old, signal.SIGSTOP)
        wait_until(lambda name=name, old=old: hosts.pids()[name] not in (None, old))  # type: ignore[misc]
        wait_until(lambda: hosts.leaders() == {"gamma"})
