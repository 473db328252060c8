"""How a cluster in containers is seen and hit; the command docker is a stand-in."""

import json
import signal
from typing import Any

import pytest

from booksan.chaos import containers as chaos_containers
from booksan.chaos.containers import ContainerLooker
from booksan.chaos.kinds import TargetKind
from booksan.chaos.targets import Strike, candidates
from booksan.chaos.view import View
from booksan.cluster import containers as cluster_containers
from booksan.cluster.containers import containers_status
from booksan.errors import UsageError

PASSWORD = "tiger"
QUEUES = f"amqp://booksan:{PASSWORD}@broker:5672/#compose"


def always(_url: str, _since: float) -> bool:
    return True


def never(_url: str, _since: float) -> bool:
    return False


def container(service: str, pid: int, *, state: str = "running", code: int = 0) -> dict[str, Any]:
    host = service != "broker"
    return {
        "Id": f"id-of-{service}",
        "State": {"Status": state, "Pid": pid, "ExitCode": code, "StartedAt": f"at {pid}"},
        "RestartCount": 0,
        "Config": {
            "Labels": {"com.docker.compose.service": service},
            "Cmd": ["host", "--data-dir", f"/data/{service}"] if host else ["rabbitmq-server"],
            "Env": [f"BOOKSAN_QUEUES={QUEUES}"] if host else [],
        },
        "NetworkSettings": {"Ports": {"7300/tcp": [{"HostIp": "127.0.0.1", "HostPort": "1"}]}},
    }


def told(service: str, worker: str, *, leads: str) -> str:
    workers = [
        {"name": name, "pid": pid, "state": "running", "restarts": 0, "since": 1.0}
        for name, pid in ((worker, 10), ("gateway.0", 11))
    ]
    report = {"pid": 1, "state": "running", "restarts": 0, "workers": workers, "error": None}
    status = json.dumps({**report, "leader": leads, "term": "4.3"})
    config = json.dumps({"election": {"id": len(service)}})
    locks = (
        "1: FLOCK  ADVISORY  WRITE 10 fe:00:77 0 EOF\n2: POSIX  ADVISORY  WRITE 0 fe:00:78 0 EOF"
    )
    return "\0".join((status, config, locks, f"77 {worker.replace('.', '-')}.lock\n"))


class Docker:
    """Two hosts and a broker; gamma leads."""

    def __init__(self) -> None:
        self.found = [container("alpha", 100), container("gamma", 300), container("broker", 500)]
        self.asked: list[tuple[str, ...]] = []
        self.log = "Server startup complete; 0 plugins started."

    def __call__(self, *words: str, seconds: float = 0.0, both: bool = False) -> str:
        self.asked.append(words)
        if words[0] == "logs":
            return self.log
        if words[0] == "ps":
            return "\n".join(one["Id"] for one in self.found)
        if words[0] == "inspect":
            return json.dumps(self.found)
        if words[:3] == ("exec", "id-of-alpha", "python"):
            return json.dumps({"q3-join.0": 5, "q1-filter.0": 0})
        if words[0] == "exec" and words[1] == "id-of-alpha":
            return told("alpha", "q3-join.0", leads="gamma")
        return told("gamma", "q1-filter.0", leads="gamma") if words[0] == "exec" else ""


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Docker:
    made = Docker()
    for module in (cluster_containers, chaos_containers):
        monkeypatch.setattr(module, "docker", made)
    return made


def names(kind: TargetKind, view: View, *strikes: Strike) -> list[str]:
    return [one.name for one in candidates(kind, view, strikes)]


def test_the_status_has_what_that_of_a_cluster_has(docker: Docker) -> None:
    found = containers_status("books")
    assert found is not None
    assert found["running"]
    assert (found["leader"], found["term"]) == ("gamma", "4.3")
    assert [host["id"] for host in found["hosts"]] == [5, 5]
    workers = {one["name"]: one for host in found["hosts"] for one in host["workers"]}
    assert workers["q3-join.0"]["pid"] == 10
    assert workers["q3-join.0"]["queue"] == 5
    assert workers["gateway.0"]["queue"] is None
    assert found["broker"] == {
        "url": found["queues"],
        "state": "running",
        "pid": 500,
        "keeper": None,
        "restarts": 0,
    }
    assert PASSWORD not in json.dumps(found)


def test_without_its_broker_a_cluster_does_not_run(docker: Docker) -> None:
    docker.found[2] = container("broker", 0, state="exited", code=137)
    found = containers_status("books")
    assert found is not None
    assert not found["running"]
    assert found["broker"]["state"] == "exited"
    docker.found = []
    assert containers_status("books") is None


def test_each_kind_has_its_victims_in_containers(docker: Docker) -> None:
    view = ContainerLooker("books").look()
    assert names(TargetKind.LEADER, view) == ["gamma"]
    assert names(TargetKind.SUPERVISOR, view) == ["alpha"]
    assert names(TargetKind.HOST, view) == ["alpha", "gamma"]
    assert names(TargetKind.WORKER, view) == ["q1-filter.0@gamma", "q3-join.0@alpha"]
    assert names(TargetKind.GATEWAY, view) == ["gateway.0@alpha", "gateway.0@gamma"]
    assert names(TargetKind.BROKER, view) == ["broker"]


@pytest.mark.parametrize(("state", "code"), [("exited", 137), ("paused", 0), ("restarting", 1)])
def test_the_last_host_that_runs_is_spared(docker: Docker, state: str, code: int) -> None:
    docker.found[0] = container("alpha", 0, state=state, code=code)
    view = ContainerLooker("books").look()
    assert names(TargetKind.HOST, view) == []
    assert names(TargetKind.LEADER, view) == []
    assert names(TargetKind.WORKER, view) == ["q1-filter.0@gamma"]


@pytest.mark.parametrize(
    ("signum", "act"),
    [(signal.SIGKILL, "kill"), (signal.SIGSTOP, "pause"), (signal.SIGCONT, "unpause")],
)
@pytest.mark.parametrize("kind", [TargetKind.HOST, TargetKind.BROKER])
def test_a_host_and_the_broker_are_hit_as_containers(
    docker: Docker, kind: TargetKind, signum: signal.Signals, act: str
) -> None:
    looker = ContainerLooker("books")
    victim = candidates(kind, looker.look(), ())[0]
    docker.asked.clear()
    looker.hit(victim.processes, signum)
    assert docker.asked == [(act, f"id-of-{victim.name}")]


def test_a_worker_is_hit_inside_of_its_container(docker: Docker) -> None:
    looker = ContainerLooker("books")
    victim = candidates(TargetKind.WORKER, looker.look(), ())[1]
    docker.asked.clear()
    looker.hit(victim.processes, signal.SIGKILL)
    (words,) = docker.asked
    assert words[:4] == ("exec", "id-of-alpha", "sh", "-c")
    assert words[-2:] == ("10", "9")


def test_a_host_is_back_with_a_new_life_of_its_container_and_all_its_shards(docker: Docker) -> None:
    looker = ContainerLooker("books")
    victim = candidates(TargetKind.HOST, looker.look(), ())[0]
    strike = Strike(victim.kind, victim.name, victim.host, victim.processes, 0.0, 0.0)
    assert not strike.is_back(looker.look(), always, [])
    docker.found[0] = container("alpha", 0, state="exited", code=137)
    assert not strike.is_back(looker.look(), always, [])
    docker.found[0] = container("alpha", 101)
    assert strike.is_back(looker.look(), always, [])
    assert not strike.is_back(looker.look(), never, [])


def test_a_broker_is_back_when_it_says_that_it_is_ready(docker: Docker) -> None:
    looker = ContainerLooker("books")
    victim = candidates(TargetKind.BROKER, looker.look(), ())[0]
    strike = Strike(victim.kind, victim.name, victim.host, victim.processes, 0.0, 0.0)
    docker.found[2], docker.log = container("broker", 501), "Starting RabbitMQ"
    assert not strike.is_back(looker.look(), always, [])
    docker.log += "\n Server startup complete; 0 plugins started."
    assert strike.is_back(looker.look(), always, [])


def test_a_project_that_is_not_there_is_refused_and_one_that_was_removed_is_stopped(
    docker: Docker,
) -> None:
    looker = ContainerLooker("books")
    docker.found = []
    assert looker.look().stopped
    with pytest.raises(UsageError, match="no Compose project books"):
        ContainerLooker("books")
