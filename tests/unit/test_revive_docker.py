"""Which containers are started again, and how."""

import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from booksan.host.config import (
    ElectionConfig,
    HostConfig,
    Peer,
    Revival,
    WorkerSpec,
    read_config,
    write_config,
)
from booksan.host.status import EXIT_AT_WORK, write_json
from booksan.membership.revive_docker import YOUNG, revive, why_not, why_not_killed
from booksan.membership.reviver import CommandReviver, NoReviver, make_reviver

STARTED = "2026-01-02T03:04:05.123456789Z"
THEN = 1767323045.0


@pytest.mark.parametrize(
    ("state", "again"),
    [
        ({"Status": "exited", "ExitCode": 137}, True),
        ({"Status": "exited", "ExitCode": 70}, True),
        ({"Status": "exited", "ExitCode": 0}, False),
        ({"Status": "exited", "ExitCode": 2}, False),
        ({"Status": "exited", "ExitCode": 78}, False),
        ({"Status": "paused", "StartedAt": STARTED}, True),
        ({"Status": "created"}, False),
        ({"Status": "removing"}, False),
        ({"Status": "running", "StartedAt": STARTED}, True),
    ],
)
def test_what_was_stopped_in_order_stays_so(state: dict[str, Any], again: bool) -> None:
    assert (why_not(state, THEN + 60) is None) is again


@pytest.mark.parametrize(
    ("state", "again"),
    [
        ({"Status": "exited", "ExitCode": 137}, True),
        ({"Status": "exited", "ExitCode": 0}, False),
        # Stopped before it could listen to the signal; crashed, which is Docker's business.
        ({"Status": "exited", "ExitCode": 143}, False),
        ({"Status": "exited", "ExitCode": 1}, False),
        ({"Status": "restarting", "ExitCode": 137}, False),
        ({"Status": "running", "StartedAt": STARTED}, False),
        ({"Status": "paused", "StartedAt": STARTED}, False),
    ],
)
def test_a_broker_is_started_again_only_if_it_was_killed(
    state: dict[str, Any], again: bool
) -> None:
    assert (why_not_killed(state) is None) is again


def test_a_container_that_was_just_started_is_left_alone() -> None:
    state = {"Status": "running", "StartedAt": STARTED}
    assert why_not(state, THEN + YOUNG / 2) is not None
    assert why_not(state, THEN + YOUNG + 1) is None
    assert why_not(state | {"StartedAt": "2026-01-02T03:04:05Z"}, THEN + YOUNG / 2) is not None


@dataclass
class Container:
    attrs: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    short_id: str = "abc"
    acts: list[str] = field(default_factory=list)
    #: Of the question for its heartbeat.
    code: int = 1

    def exec_run(self, command: list[str]) -> "Container":
        assert command[-1] == "booksan.membership.liveness"
        self.acts.append("ask")
        return self

    @property
    def exit_code(self) -> int:
        return self.code

    def kill(self) -> None:
        self.acts.append("kill")

    def wait(self, timeout: float) -> None:
        self.acts.append("wait")

    def start(self) -> None:
        self.acts.append("start")


@dataclass
class Containers:
    """As the library's, as far as it is used."""

    found: Container
    asked: list[str] = field(default_factory=list)

    def get(self, name: str) -> Container:
        assert name == socket.gethostname()
        return Container({}, {"com.docker.compose.project": "books"})

    def list(self, *, all: bool, filters: dict[str, list[str]]) -> list[Container]:
        assert all
        self.asked = filters["label"]
        return [self.found]


@dataclass
class Engine:
    containers: Containers


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library need not be there."""
    monkeypatch.setitem(sys.modules, "docker", type(sys)("docker"))
    errors: Any = type(sys)("docker.errors")
    errors.APIError = RuntimeError
    monkeypatch.setitem(sys.modules, "docker.errors", errors)


@pytest.mark.usefixtures("library")
def test_a_container_whose_supervisor_is_only_deaf_is_left_alone() -> None:
    state = {"Status": "running", "StartedAt": STARTED}
    container = Container({"State": state}, code=0)
    assert revive(Engine(Containers(container)), "beta") == EXIT_AT_WORK
    assert container.acts == ["ask"]


@pytest.mark.usefixtures("library")
def test_a_container_that_cannot_be_asked_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Container, command: list[str]) -> Container:
        raise RuntimeError("no such exec")

    monkeypatch.setattr(Container, "exec_run", refuse)
    container = Container({"State": {"Status": "running", "StartedAt": STARTED}})
    assert revive(Engine(Containers(container)), "beta") == 0
    assert container.acts == ["kill", "wait", "start"]


@pytest.mark.parametrize(
    ("status", "acts"),
    [
        ("exited", ["start"]),
        ("running", ["ask", "kill", "wait", "start"]),
        ("created", []),
    ],
)
@pytest.mark.usefixtures("library")
def test_a_host_is_killed_before_it_is_started(status: str, acts: list[str]) -> None:
    container = Container({"State": {"Status": status, "ExitCode": 137, "StartedAt": STARTED}})
    engine = Engine(Containers(container))
    assert revive(engine, "beta") == 0
    assert container.acts == acts
    assert "com.docker.compose.project=books" in engine.containers.asked
    assert "com.docker.compose.service=beta" in engine.containers.asked


@pytest.mark.parametrize(("status", "acts"), [("exited", ["start"]), ("running", [])])
def test_a_broker_that_may_be_starting_is_not_killed(status: str, acts: list[str]) -> None:
    container = Container({"State": {"Status": status, "ExitCode": 137, "StartedAt": STARTED}})
    revive(Engine(Containers(container)), "broker", if_killed=True)
    assert container.acts == acts


def election(by: Revival, revival: dict[str, str]) -> ElectionConfig:
    peers = {"beta": Peer(2, ("beta", 7400))}
    return ElectionConfig("alpha", 1, ("alpha", 7400), peers, revival, by)


def test_the_configuration_says_how_hosts_are_revived(tmp_path: Path) -> None:
    made = election(Revival.DOCKER, {"beta": "beta"})
    write_config(tmp_path, HostConfig((WorkerSpec("q3-join", 0),), election=made))
    assert read_config(tmp_path).election == made
    reviver = make_reviver(made, tmp_path)
    assert isinstance(reviver, CommandReviver)
    assert reviver.commands["beta"][-2:] == ["booksan.membership.revive_docker", "beta"]
    assert "broker" not in reviver.commands
    assert isinstance(make_reviver(election(Revival.NONE, {"beta": "beta"}), tmp_path), NoReviver)
    assert isinstance(make_reviver(election(Revival.DOCKER, {}), tmp_path), NoReviver)


def test_the_leader_brings_back_a_broker_that_is_named(tmp_path: Path) -> None:
    made = replace(election(Revival.DOCKER, {"beta": "beta"}), broker=("broker", 5672))
    write_config(tmp_path, HostConfig((WorkerSpec("q3-join", 0),), election=made))
    assert read_config(tmp_path).election == made
    reviver = make_reviver(made, tmp_path)
    assert isinstance(reviver, CommandReviver)
    assert reviver.commands["broker"][-2:] == ["broker", "if-killed"]


def test_a_configuration_that_does_not_say_it_revives_processes(tmp_path: Path) -> None:
    old = {
        "name": "alpha",
        "id": 1,
        "listen": ["127.0.0.1", 7401],
        "peers": {"beta": {"id": 2, "address": ["127.0.0.1", 7402]}},
        "revival": {"beta": "/somewhere"},
    }
    write_json(
        tmp_path / "host.json", {"workers": [{"stage": "q3-join", "shard": 0}], "election": old}
    )
    found = read_config(tmp_path).election
    assert found is not None
    assert found.by is Revival.PROCESS
    reviver = make_reviver(found, tmp_path)
    assert isinstance(reviver, CommandReviver)
    assert reviver.commands["beta"][-2:] == ["booksan.membership.revive", "/somewhere"]


def test_the_time_of_the_engine_is_universal_time() -> None:
    now = time.time()
    started = time.strftime("%Y-%m-%dT%H:%M:%S.000000001Z", time.gmtime(now))
    assert why_not({"Status": "running", "StartedAt": started}, now + 1) is not None
