"""A Compose project of its own on a real engine."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from booksan.cluster.registry import ask_gateway

ROOT = Path(__file__).parents[2]
#: In place of the user's .env.
NO_SECRETS = str(ROOT / "tests/docker/nothing.env")
HOSTS = ("alpha", "beta", "gamma")
#: Seconds that anything may take, with the machine under load.
PATIENCE = 180.0
#: The variables that say where the gateways are published.
PORTS = ("BOOKSAN_PORT", "BOOKSAN_PORT_BETA", "BOOKSAN_PORT_GAMMA")
#: As docs/docker.md says it.
WITHOUT_SOCKET = {
    "BOOKSAN_REVIVAL": "none",
    "BOOKSAN_RESTART": "on-failure",
    "DOCKER_SOCKET": "/dev/null",
}


def wait_until(holds: Callable[[], bool], seconds: float = PATIENCE, what: str = "") -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.2)


def run(*words: str, env: Mapping[str, str] | None = None, check: bool = True) -> str:
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=dict(env or os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert not check or done.returncode == 0, f"{words} ended with {done.returncode}: {done.stdout}"
    return done.stdout


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass(frozen=True)
class Project:
    name: str
    secrets: Mapping[str, str]
    #: Of the gateways, by host, and of the broker's page.
    ports: Mapping[str, int]
    page: int
    settings: Mapping[str, str]

    @classmethod
    def make(cls) -> "Project":
        names = ("SECRET", "TOKEN", "OPERATOR_TOKEN", "BROKER_PASSWORD")
        made = {f"BOOKSAN_{name}": secrets.token_hex(16) for name in names}
        ports = {host: free_port() for host in HOSTS}
        return cls(f"booksan-test-{secrets.token_hex(3)}", made, ports, free_port(), {})

    def with_settings(self, settings: Mapping[str, str]) -> "Project":
        return replace(self, settings=settings)

    @cached_property
    def environment(self) -> dict[str, str]:
        more = {"COMPOSE_PROJECT_NAME": self.name, "RABBITMQ_PAGE_PORT": str(self.page)}
        ports = {PORTS[HOSTS.index(host)]: str(port) for host, port in self.ports.items()}
        return {**os.environ, **self.secrets, **more, **ports, **self.settings}

    @property
    def servers(self) -> str:
        return ",".join(f"http://127.0.0.1:{port}" for port in self.ports.values())

    def compose(self, *words: str, check: bool = True) -> str:
        return run(
            "docker-compose", "--env-file", NO_SECRETS, *words, env=self.environment, check=check
        )

    def booksan(self, *words: str, check: bool = True) -> str:
        return run(sys.executable, "-m", "booksan", *words, env=self.environment, check=check)

    def container(self, service: str) -> str:
        filters = [f"com.docker.compose.{k}={v}" for k, v in self._labels(service).items()]
        words = [word for one in filters for word in ("--filter", f"label={one}")]
        return run("docker", "ps", "-aq", "--no-trunc", *words).strip()

    def _labels(self, service: str) -> dict[str, str]:
        return {"project": self.name, "service": service, "oneoff": "False"}

    def state(self, service: str) -> dict[str, Any]:
        """As inspected, with the container's id."""
        found = json.loads(run("docker", "inspect", self.container(service)))[0]
        return {**found["State"], "Id": found["Id"]}

    def kill(self, service: str) -> None:
        run("docker", "kill", self.container(service))

    def kill_process_1(self, service: str) -> None:
        """From the engine's side: the container does not know why it ended."""
        os.kill(int(self.state(service)["Pid"]), signal.SIGKILL)

    def has_exited(self, service: str) -> bool:
        """In order, and nobody has started it since."""
        state = self.state(service)
        return (state["Status"], state["ExitCode"]) == ("exited", 0)

    def said(self, service: str, words: str) -> bool:
        """In the log of what its revivals did."""
        log = f"/data/{service}/logs/revival.log"
        return words in run("docker", "exec", self.container(service), "cat", log, check=False)

    def is_well(self, host: str) -> bool:
        return ask_gateway(f"http://127.0.0.1:{self.ports[host]}", host) is None

    def all_well(self) -> bool:
        return all(self.is_well(host) for host in HOSTS)

    def is_new(self, service: str, before: Mapping[str, Any]) -> bool:
        state = self.state(service)
        return bool(state["Status"] == "running" and state["StartedAt"] != before["StartedAt"])

    def seconds_to_return(self, hurt: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """From a wound to the moment in which a new life of each host says that all is well; of
        the broker, that all hosts do."""
        before = {service: self.state(service) for service in hurt}
        began: dict[str, float] = {}
        took: dict[str, float] = {}
        for service, act in hurt.items():
            began[service] = time.monotonic()
            act()

        def look() -> bool:
            for service in before.keys() - took.keys():
                if self.is_new(service, before[service]) and self._is_back(service):
                    took[service] = time.monotonic() - began[service]
            return len(took) == len(before)

        wait_until(look, what=f"{', '.join(hurt)} back")
        wait_until(self.all_well, what="all hosts are at work")
        return took

    def _is_back(self, service: str) -> bool:
        if service in HOSTS:
            return self.is_well(service)
        # Gateways may not have missed it yet.
        state = self.state(service)
        said = run("docker", "logs", "--since", state["StartedAt"], state["Id"])
        return "startup complete" in said and self.all_well()

    def up(self) -> float:
        """Seconds until all hosts are at work."""
        began = time.monotonic()
        self.compose("up", "-d", "--no-build")
        wait_until(self.all_well, what="all hosts are at work")
        return time.monotonic() - began

    def logs(self) -> str:
        return self.compose("logs", "--no-color", check=False)


@contextmanager
def running_project(failed: Callable[[], bool]) -> Iterator[Project]:
    """`failed`: whether the logs are of interest in the end."""
    project, is_up = Project.make(), False
    try:
        project.up()
        is_up = True
        yield project
    finally:
        if not is_up or failed():
            sys.stderr.write(project.logs()[-30_000:])
        project.compose("--profile", "client", "down", "-v", "-t", "20", check=False)
