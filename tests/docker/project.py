"""A Compose project of its own on a real engine."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from booksan.cluster.health import ask_gateway

ROOT = Path(__file__).parents[2]
#: In place of the user's .env.
NO_SECRETS = str(ROOT / "tests/docker/nothing.env")
HOSTS = ("alpha", "beta", "gamma")
#: Seconds that anything may take, with the machine under load.
PATIENCE = 180.0


def wait_until(holds: Callable[[], bool], seconds: float = PATIENCE, what: str = "") -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)


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
    ports: tuple[int, int]

    @cached_property
    def environment(self) -> dict[str, str]:
        alpha, beta = map(str, self.ports)
        more = {
            "COMPOSE_PROJECT_NAME": self.name,
            "BOOKSAN_PORT": alpha,
            "BOOKSAN_PORT_BETA": beta,
            "RABBITMQ_PAGE_PORT": str(free_port()),
        }
        return {**os.environ, **self.secrets, **more}

    @property
    def servers(self) -> str:
        return ",".join(f"http://127.0.0.1:{port}" for port in self.ports)

    def compose(self, *words: str, check: bool = True) -> str:
        return run(
            "docker-compose", "--env-file", NO_SECRETS, *words, env=self.environment, check=check
        )

    def container(self, service: str) -> str:
        filters = [f"com.docker.compose.{k}={v}" for k, v in self._labels(service).items()]
        words = [word for one in filters for word in ("--filter", f"label={one}")]
        return run("docker", "ps", "-aq", "--no-trunc", *words).strip()

    def _labels(self, service: str) -> dict[str, str]:
        return {"project": self.name, "service": service, "oneoff": "False"}

    def inspect(self, service: str) -> dict[str, Any]:
        found = json.loads(run("docker", "inspect", self.container(service)))[0]
        assert isinstance(found, dict)
        return found

    def state(self, service: str) -> dict[str, Any]:
        state = self.inspect(service)["State"]
        assert isinstance(state, dict)
        return state

    def is_well(self, host: str) -> bool:
        """Asked at the container's own address: not all gateways are published."""
        found = self.inspect(host)
        networks = found["NetworkSettings"]["Networks"].values()
        address = next((one["IPAddress"] for one in networks if one["IPAddress"]), None)
        if found["State"]["Status"] != "running" or address is None:
            return False
        return ask_gateway(f"http://{address}:7300", host) is None

    def all_well(self) -> bool:
        return all(self.is_well(host) for host in HOSTS)

    def seconds_to_return(self, host: str, hurt: Callable[[], object]) -> float:
        """From a wound to the moment in which a new container's gateway says that all is well."""
        before = self.state(host)["StartedAt"]
        began = time.monotonic()
        hurt()
        wait_until(
            lambda: self.state(host)["StartedAt"] != before and self.is_well(host),
            what=f"{host} is back",
        )
        return time.monotonic() - began

    def logs(self) -> str:
        return self.compose("logs", "--no-color", check=False)


@contextmanager
def running_project() -> Iterator[Project]:
    names = ("BOOKSAN_SECRET", "BOOKSAN_TOKEN", "BOOKSAN_OPERATOR_TOKEN", "BOOKSAN_BROKER_PASSWORD")
    made = {name: secrets.token_hex(16) for name in names}
    project = Project(f"booksan-test-{secrets.token_hex(3)}", made, (free_port(), free_port()))
    try:
        project.compose("up", "-d", "--no-build")
        wait_until(project.all_well, what="all hosts are at work")
        yield project
    except BaseException:
        sys.stderr.write(project.logs()[-20_000:])
        raise
    finally:
        project.compose("--profile", "client", "down", "-v", "-t", "20", check=False)
