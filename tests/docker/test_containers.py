"""Hosts in containers on a real engine: `make test-docker`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.clients import Client
from tests.docker.project import (
    HOSTS,
    NO_SECRETS,
    PATIENCE,
    Project,
    run,
    running_project,
    wait_until,
)

LACK = os.environ.get("BOOKSAN_DOCKER_LACK")
IMAGE = os.environ.get("BOOKSAN_IMAGE", "booksan")
#: Seconds in which a leader would have revived what it must not.
FIGHT = 15.0

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(900),
    pytest.mark.skipif(LACK is not None, reason=f"no containers: {LACK}"),
]


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with running_project() as project:
        yield project


def show(line: str) -> None:
    print(f"\n    {line}", flush=True)


def kill_process(project: Project, service: str) -> None:
    """Process 1 of the container, from outside."""
    os.kill(int(project.state(service)["Pid"]), signal.SIGKILL)


def test_the_image_is_small_and_holds_no_secret(project: Project) -> None:
    size = int(run("docker", "image", "inspect", "-f", "{{.Size}}", IMAGE))
    show(f"the image has {size / 1e6:.0f} MB")
    assert size < 400e6
    told = run("docker", "history", "--no-trunc", IMAGE) + run("docker", "image", "inspect", IMAGE)
    seen = run("docker", "inspect", project.container("alpha"))
    assert "BOOKSAN_SECRET" not in told
    for name, value in project.secrets.items():
        assert value not in told
        # The password stands in the address of the queues, once, and the rest once each.
        assert seen.count(value) == 1, name


def test_nothing_starts_without_secrets(project: Project) -> None:
    for name in project.secrets:
        if name == "BOOKSAN_OPERATOR_TOKEN":
            continue
        env = {key: value for key, value in project.environment.items() if key != name}
        words = ["docker-compose", "--env-file", NO_SECRETS, "config"]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "scripts/secrets" in done.stderr


def test_the_supervisor_is_process_1_without_privileges(project: Project) -> None:
    found = run("docker", "exec", project.container("alpha"), "cat", "/proc/1/cmdline")
    assert "booksan.supervisor" in found
    assert run("docker", "exec", project.container("alpha"), "id", "-u").strip() == "10001"


def test_the_status_tells_who_leads(project: Project) -> None:
    words = [sys.executable, "-m", "booksan", "cluster", "status", "--compose", project.name]
    wait_until(lambda: json.loads(run(*words, "--json", check=False))["leader"] == "gamma")
    found = json.loads(run(*words, "--json"))
    assert found["running"]
    assert [host["name"] for host in found["hosts"]] == list(HOSTS)
    assert all(worker["state"] == "running" for h in found["hosts"] for worker in h["workers"])


def test_killed_hosts_and_a_killed_broker_come_back_and_the_answers_are_the_same(
    project: Project, tmp_path: Path
) -> None:
    clients = [Client.make(tmp_path / str(n), project, n, reviews=6000 * n) for n in (1, 2)]
    for client in clients:
        client.start()
    try:
        # The highest id leads, so the leader is the first.
        for host in reversed(HOSTS):
            kill = ("docker", "kill", project.container(host))
            seconds = project.seconds_to_return(host, lambda kill=kill: run(*kill))  # type: ignore[misc]
            show(f"{host}, killed, is back after {seconds:.1f} s")
            wait_until(project.all_well)
        before, began = project.state("broker")["StartedAt"], time.monotonic()
        kill_process(project, "broker")
        wait_until(lambda: project.state("broker")["StartedAt"] != before)
        wait_until(project.all_well)
        show(f"the broker, killed, is back after {time.monotonic() - began:.1f} s")
    finally:
        for client in clients:
            client.finish()
    assert [client.problems for client in clients] == [[], []]
    show(f"{sum(client.runs for client in clients)} runs, all with the same answers")


@pytest.mark.parametrize("how", ["paused", "standing still", "process 1 killed"])
def test_a_host_that_hangs_or_lost_its_supervisor_is_revived(project: Project, how: str) -> None:
    def hurt() -> None:
        if how == "paused":
            run("docker", "pause", project.container("beta"))
        elif how == "standing still":
            run("docker", "kill", "-s", "STOP", project.container("beta"))
        else:
            kill_process(project, "beta")

    show(f"beta, {how}, is back after {project.seconds_to_return('beta', hurt):.1f} s")
    wait_until(project.all_well)


@pytest.mark.parametrize("host", ["beta", "gamma"])
def test_a_host_that_is_stopped_stays_so(project: Project, host: str) -> None:
    wait_until(project.all_well)
    project.compose("stop", host)
    assert project.state(host)["ExitCode"] == 0
    deadline = time.monotonic() + FIGHT
    while time.monotonic() < deadline:
        assert project.state(host)["Status"] == "exited"
        time.sleep(0.5)
    project.compose("start", host)
    wait_until(project.all_well)


def test_clients_outlive_a_down_and_an_up_in_the_middle(project: Project, tmp_path: Path) -> None:
    clients = [Client.make(tmp_path / str(n), project, n + 10, reviews=40_000) for n in (1, 2)]
    for client in clients:
        client.start()
        client.enough.set()
    try:
        wait_until(lambda: all(list(c.root.glob("state/booksan/clients/*/*")) for c in clients))
        project.compose("down")
        assert not any(map(project.container, (*HOSTS, "broker")))
        assert all(client.thread is not None and client.thread.is_alive() for client in clients)
        began = time.monotonic()
        project.compose("up", "-d", "--no-build")
        wait_until(project.all_well)
        show(f"all hosts are at work {time.monotonic() - began:.1f} s after `up`")
    finally:
        for client in clients:
            client.finish()
    assert [client.problems for client in clients] == [[], []]
    assert [client.runs for client in clients] == [1, 1]


def test_the_demo_runs_inside(project: Project) -> None:
    wait_until(project.all_well)
    said = project.compose("--profile", "client", "run", "--rm", "demo")
    assert "q4.csv" in said, said
    wait_until(project.all_well, PATIENCE)
