"""A cluster in containers: what the engine knows of them, and what their hosts say inside."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from booksan.cluster.status import DEAD, leader_of, workers_of
from booksan.errors import BooksanError
from booksan.host.config import HOST_FILE
from booksan.host.status import STATUS_FILE, HostState, HostStatus, parse_status
from booksan.transport import QUEUES_VARIABLE, masked

# The containers of a Compose project, by the command `docker`: what the engine knows of them.

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


# The state of a cluster in containers: what the engine knows, and what the hosts say.

#: Seconds for the lengths of all queues: a broker that is just starting may not answer.
_LENGTHS_SECONDS = 10.0
#: What a host tells, in one go, since each look into a container takes the engine some time.
_TELL = f"""cd "$0" && cat {STATUS_FILE}; printf '\\0'; cat {HOST_FILE}; printf '\\0'
cat /proc/locks; printf '\\0'; cd shards && stat -c '%i %n' *.lock; true"""


@dataclass(frozen=True)
class HostInside:
    """A host in its container."""

    container: Container
    #: None while it is down, or has not come so far yet.
    report: HostStatus | None = None
    #: In the election.
    id: int | None = None
    #: Which process has which shard, as far as the kernel tells.
    holders: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.container.service

    @property
    def state(self) -> str:
        container = self.container
        if container.state == RUNNING:
            return self.report.state if self.report else HostState.STARTING
        if container.state == EXITED:
            return DEAD if container.exit_code else HostState.STOPPED
        return container.state


@dataclass(frozen=True)
class Inside:
    """The project: its hosts, and the broker if it is one of its services."""

    hosts: tuple[HostInside, ...]
    broker: Container | None = None
    #: The address of the queues without its password.
    queues: str = ""

    @property
    def leader(self) -> dict[str, Any]:
        return leader_of([host_status(host) for host in self.hosts])


def look_inside(project: str) -> Inside:
    """No hosts: there is no such project."""
    found = containers(project)
    hosts = [one for one in found if one.is_host]
    if not hosts:
        return Inside(())
    with ThreadPoolExecutor(len(hosts)) as pool:
        told = tuple(pool.map(_host, hosts))
    queues = next((text for one in hosts if (text := one.variable(QUEUES_VARIABLE))), "")
    service = urlsplit(queues).hostname
    broker = next((one for one in found if one.service == service), None)
    return Inside(told, broker, masked(queues) if queues else "")


def containers_status(project: str) -> dict[str, Any] | None:
    """As `full_status`, for the containers of a Compose project; None if there are none."""
    found = look_inside(project)
    if not found.hosts:
        return None
    hosts = [host_status(host) for host in found.hosts]
    workers = [worker for host in hosts for worker in host["workers"]]
    lengths = _queue_lengths(found, [worker["name"] for worker in workers])
    for worker in workers:
        worker["queue"] = lengths.get(worker["name"])
    kept = broker_status(found)
    whole = all(host["state"] == HostState.RUNNING for host in hosts)
    return {
        "name": project,
        "running": whole and (kept is None or kept["state"] == RUNNING),
        **leader_of(hosts),
        "queues": found.queues,
        "broker": kept,
        "hosts": hosts,
        "gateways": [host["gateway"] for host in hosts if host["gateway"]],
        "operator_token_file": None,
    }


def host_status(host: HostInside) -> dict[str, Any]:
    report = host.report
    return {
        "name": host.name,
        "id": "-" if host.id is None else host.id,
        "pid": host.container.pid,
        "state": host.state,
        "error": report.error if report else None,
        "gateway": host.container.published,
        "data_dir": host.container.option("--data-dir"),
        "follows": report.leader if report else None,
        "term": report.term if report else None,
        "workers": workers_of(report),
    }


def broker_status(found: Inside) -> dict[str, Any] | None:
    broker = found.broker
    if broker is None:
        return None
    return {
        "url": found.queues,
        "state": broker.state,
        "pid": broker.pid,
        "keeper": None,
        "restarts": broker.restarts,
    }


def _host(container: Container) -> HostInside:
    if container.state != RUNNING:
        return HostInside(container)
    try:
        told = docker("exec", container.id, "sh", "-c", _TELL, container.option("--data-dir"))
    except EngineError:
        # It has ended since.
        return HostInside(container)
    status, config, locks, shards = (told.split("\0") + [""] * 3)[:4]
    return HostInside(container, parse_status(status), _id(config), _holders(locks, shards))


def _id(config: str) -> int | None:
    try:
        return int(json.loads(config)["election"]["id"])
    except (ValueError, KeyError, TypeError):
        # A host that elects nobody has none.
        return None


def _holders(locks: str, shards: str) -> dict[str, int]:
    """By shard. Inside of a container a lock of another one has no process."""
    lines = [line.split() for line in locks.splitlines()]
    pids = {words[5].rpartition(":")[2]: int(words[4]) for words in lines if words[1] == "FLOCK"}
    files = [line.split() for line in shards.splitlines()]
    found = {name.removesuffix(".lock"): pids.get(inode, 0) for inode, name in files}
    return {name: pid for name, pid in found.items() if pid > 0}


def _queue_lengths(found: Inside, names: Sequence[str]) -> dict[str, int]:
    """Asked by a host, which knows the password and reaches the broker."""
    shards = [name for name in names if not name.startswith("gateway.")]
    asked = next((host for host in found.hosts if host.report is not None), None)
    if asked is None or (found.broker is not None and found.broker.state != RUNNING):
        return {}
    words = ("exec", asked.container.id, "python", "-m", "booksan.cluster.depths", *shards)
    try:
        lengths = json.loads(docker(*words, seconds=_LENGTHS_SECONDS))
    except (EngineError, ValueError):
        # The status is asked for above all when something is broken: it shows the rest.
        return {}
    return {str(name): int(length) for name, length in lengths.items()}
