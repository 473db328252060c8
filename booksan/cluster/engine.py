"""The containers of a Compose project, by the command `docker`: what the engine knows of them."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from booksan.errors import BooksanError

_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_ONE_OFF = "com.docker.compose.oneoff"
#: Seconds for one question to the engine.
ASK_SECONDS = 20.0

RUNNING, PAUSED, EXITED = "running", "paused", "exited"


class EngineError(BooksanError):
    """The engine cannot do what it was asked."""


@dataclass(frozen=True)
class Container:
    """As it was inspected."""

    found: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.found["Id"])

    @property
    def service(self) -> str:
        return str(self.found["Config"]["Labels"][_SERVICE])

    @property
    def state(self) -> str:
        return str(self.found["State"]["Status"])

    @property
    def exit_code(self) -> int:
        return int(self.found["State"]["ExitCode"])

    @property
    def pid(self) -> int | None:
        """Of its first process, outside of it; None while it is down."""
        return self.found["State"]["Pid"] or None

    @property
    def life(self) -> str:
        """Another one after each start."""
        return f"{self.id[:12]}/{self.found['State']['StartedAt']}"

    def has_said(self, words: str) -> bool:
        """In its present life; of one whose log the engine does not keep, nobody knows."""
        since = self.found["State"]["StartedAt"]
        try:
            return words in docker("logs", "--since", since, self.id, both=True)
        except EngineError:
            return True

    @property
    def restarts(self) -> int:
        """By Docker's own policy."""
        return int(self.found["RestartCount"])

    @property
    def is_host(self) -> bool:
        return self._words[:1] == ["host"]

    @property
    def published(self) -> str:
        """Where its first port is published; nothing if none is."""
        ports = self.found["NetworkSettings"]["Ports"] or {}
        places = [one for found in ports.values() for one in found or ()]
        return f"http://{places[0]['HostIp']}:{places[0]['HostPort']}" if places else ""

    def option(self, name: str) -> str:
        """Of its command line."""
        words = self._words
        return words[words.index(name) + 1] if name in words[:-1] else ""

    def variable(self, name: str) -> str | None:
        given = (line.partition("=") for line in self.found["Config"]["Env"] or ())
        return next((value for key, _, value in given if key == name), None)

    @property
    def _words(self) -> list[str]:
        return list(self.found["Config"]["Cmd"] or ())


def containers(project: str) -> list[Container]:
    """All of the project, in the order of the names of their services."""
    try:
        return _containers(project)
    except EngineError:
        # One may have been removed after it was listed. If it is worse, the second answer tells.
        return _containers(project)


def _containers(project: str) -> list[Container]:
    filters = [f"label={_PROJECT}={project}", f"label={_ONE_OFF}=False"]
    ids = docker("ps", "-aq", *(word for one in filters for word in ("--filter", one))).split()
    found = json.loads(docker("inspect", *ids)) if ids else []
    return sorted(map(Container, found), key=lambda one: one.service)


def docker(*words: str, seconds: float = ASK_SECONDS, both: bool = False) -> str:
    """What it prints; `both`: to either output."""
    try:
        done = subprocess.run(
            ("docker", *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise BooksanError("there is no command `docker` on this machine; install it") from None
    except subprocess.TimeoutExpired:
        raise EngineError(f"the Docker engine did not answer within {seconds:g} s") from None
    if done.returncode != 0:
        raise EngineError(f"`docker {words[0]}` failed: {done.stderr.strip()}")
    return done.stdout + done.stderr if both else done.stdout
