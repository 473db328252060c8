"""Hosts in containers on a real engine: `make test-docker`.

One project serves all tests, in this order; what a test hurts is whole again when it ends.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.docker.clients import Client, at_work
from tests.docker.layers import contents
from tests.docker.project import (
    HOSTS,
    NO_SECRETS,
    PATIENCE,
    WITHOUT_SOCKET,
    Project,
    run,
    running_project,
    wait_until,
)

LACK = os.environ.get("BOOKSAN_DOCKER_LACK")
IMAGE = os.environ.get("BOOKSAN_IMAGE", "booksan")
#: What was in an .env beside the Dockerfile when the image was built.
DECOY = os.environ.get("BOOKSAN_TEST_DECOY", "")
#: Names of files that hold secrets.
SECRET_FILES = re.compile(r"(^|/)(\.env|secret|\.erlang\.cookie|id_[a-z0-9]+|.*\.key)$")

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(600),
    pytest.mark.skipif(LACK is not None, reason=f"no containers: {LACK}"),
]


@pytest.fixture(scope="module")
def project(request: pytest.FixtureRequest) -> Iterator[Project]:
    with running_project(lambda: request.session.testsfailed > 0) as project:
        yield project


@pytest.fixture(scope="module")
def clients(project: Project, tmp_path_factory: pytest.TempPathFactory) -> list[Client]:
    root = tmp_path_factory.mktemp("clients")
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(Client.make, root / str(n), project, n, reviews=40_000) for n in (1, 2)]
        return [one.result() for one in made]


def show(line: str) -> None:
    print(f"\n    {line}", flush=True)


def show_returns(how: str, took: dict[str, float]) -> None:
    for service, seconds in took.items():
        show(f"{service}, {how}, is back after {seconds:.1f} s")


def test_the_image_is_small_and_holds_no_secret(project: Project) -> None:
    size = int(run("docker", "image", "inspect", "-f", "{{.Size}}", IMAGE))
    show(f"the image has {size / 1e6:.0f} MB")
    assert size < 400e6
    secrets = [DECOY.encode(), *(value.encode() for value in project.secrets.values())]
    assert all(secrets)
    files = 0
    for name, data in contents(IMAGE):
        files += 1
        assert not SECRET_FILES.search(name), name
        assert not any(secret in data for secret in secrets), name
    show(f"{files} files in its layers, none with a secret")
    assert files > 1000
    told = run("docker", "history", "--no-trunc", IMAGE) + run("docker", "image", "inspect", IMAGE)
    assert "BOOKSAN_SECRET" not in told


def test_the_engine_tells_only_the_secrets_that_it_was_given(project: Project) -> None:
    seen = run("docker", "inspect", project.container("alpha"))
    for name, value in project.secrets.items():
        # The password stands in the address of the queues, once, and the rest once each.
        assert seen.count(value) == 1, name


def test_nothing_starts_without_secrets(project: Project) -> None:
    for name in project.secrets.keys() - {"BOOKSAN_OPERATOR_TOKEN"}:
        env = {key: value for key, value in project.environment.items() if key != name}
        words = ["docker-compose", "--env-file", NO_SECRETS, "config"]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "scripts/secrets" in done.stderr


def test_the_supervisor_is_process_1_without_privileges(project: Project) -> None:
    look = "cat /proc/1/cmdline; id -u; grep CapEff /proc/1/status"
    found = run("docker", "exec", project.container("alpha"), "sh", "-c", look)
    assert "booksan.supervisor" in found
    assert "10001\n" in found
    assert "0000000000000000" in found


def test_the_status_tells_who_leads_who_works_and_what_waits(project: Project) -> None:
    words = ("cluster", "status", "--compose", project.name, "--json")
    wait_until(lambda: json.loads(project.booksan(*words, check=False))["leader"] == "gamma")
    found = json.loads(project.booksan(*words))
    assert found["running"]
    assert [host["name"] for host in found["hosts"]] == list(HOSTS)
    workers = [worker for host in found["hosts"] for worker in host["workers"]]
    assert all(worker["state"] == "running" and worker["pid"] > 1 for worker in workers)
    queues = {one["name"]: one["queue"] for one in workers if "gateway" not in one["name"]}
    assert queues
    assert all(isinstance(length, int) for length in queues.values()), queues
    assert found["broker"]["state"] == "running"
    assert project.secrets["BOOKSAN_BROKER_PASSWORD"] not in json.dumps(found)


def test_killed_hosts_and_a_killed_broker_come_back_and_the_answers_are_the_same(
    project: Project, clients: list[Client]
) -> None:
    with at_work(clients):
        # The highest id leads, so the leader is the first.
        for service in (*reversed(HOSTS), "broker"):
            kill = partial(project.kill, service)
            show_returns("docker kill", project.seconds_to_return({service: kill}))
        # Docker takes that for a wish and leaves it to the leader; a mere death is its own.
        kill = partial(project.kill_process_1, "broker")
        show_returns("its process killed", project.seconds_to_return({"broker": kill}))


def test_hosts_that_hang_or_lost_their_supervisor_are_revived(project: Project) -> None:
    took = project.seconds_to_return(
        {
            "alpha": lambda: run("docker", "pause", project.container("alpha")),
            "beta": lambda: run("docker", "kill", "-s", "STOP", project.container("beta")),
        }
    )
    show(f"alpha, paused, is back after {took['alpha']:.1f} s")
    show(f"beta, standing still (SIGSTOP), is back after {took['beta']:.1f} s")
    for host in ("gamma", "beta"):
        kill = partial(project.kill_process_1, host)
        show_returns("process 1 killed", project.seconds_to_return({host: kill}))


def test_all_comes_back_that_chaos_hits_and_the_answers_are_the_same(
    project: Project, clients: list[Client]
) -> None:
    every = "worker=2s,gateway=5s,leader=10s,host=8s,broker=12s"
    targets = "worker,gateway,leader,host,broker"
    words = ("chaos", "--compose", project.name, "--target", targets, "--every", every)
    more = ("--for", "20s", "--seed", "6", "--patience", f"{PATIENCE:g}s")
    with at_work(clients):
        said = project.booksan(*words, *more, "--json", check=False)
    found = json.loads(said)
    for kind, row in found["kinds"].items():
        show(
            f"{kind}: {row['kills']} kills, back after {row['median']} s, {row['worst']} s at most"
        )
    assert found["exit_code"] == 0, said
    assert {"worker", "gateway", "broker"} <= found["kinds"].keys()
    assert {"leader", "host"} & found["kinds"].keys()
    wait_until(project.all_well)


def test_what_is_stopped_stays_so(project: Project) -> None:
    """The return of a host that was killed later shows that the leader had time to fight."""
    project.compose("stop", "beta", "broker")
    before = project.state("alpha")
    project.kill("alpha")
    wait_until(lambda: project.is_new("alpha", before), what="alpha started again")
    wait_until(lambda: project.said("gamma", "leaves broker"), what="the broker left alone")
    assert project.has_exited("beta")
    assert project.has_exited("broker")
    project.compose("start", "broker", "beta")
    wait_until(project.all_well)
    # The leader too: another one takes over, and leaves it.
    project.compose("stop", "gamma")
    before = project.state("beta")
    project.kill("beta")
    wait_until(lambda: project.is_new("beta", before), what="beta started again")
    wait_until(lambda: project.is_well("beta"), what="beta at work")
    assert project.has_exited("gamma")
    project.compose("start", "gamma")
    wait_until(project.all_well)


def test_clients_outlive_a_down_and_an_up_in_the_middle(
    project: Project, clients: list[Client]
) -> None:
    with at_work(clients, once=True):
        wait_until(lambda: all(client.is_sending for client in clients))
        project.compose("down")
        assert not any(map(project.container, (*HOSTS, "broker")))
        assert all(client.is_sending for client in clients), "they were too quick"
        show(f"all hosts are at work {project.up():.1f} s after `up`")


def test_the_demo_runs_inside(project: Project) -> None:
    said = project.compose("--profile", "client", "run", "--rm", "demo")
    assert "q4.csv" in said, said


def test_without_the_socket_docker_itself_brings_hosts_back(project: Project) -> None:
    project = project.with_settings(WITHOUT_SOCKET)
    project.up()
    found = run("docker", "inspect", "-f", "{{.HostConfig.Binds}}", project.container("beta"))
    assert "docker.sock" in found
    assert "/dev/null:" in found
    kill = partial(project.kill_process_1, "beta")
    show_returns("process 1 killed, no socket", project.seconds_to_return({"beta": kill}))
