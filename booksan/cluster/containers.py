"""The state of a cluster in containers, by the command `docker`."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from booksan.cluster.status import DEAD, leader_of, workers_of
from booksan.errors import BooksanError
from booksan.supervisor.states import HostState
from booksan.supervisor.status import STATUS_FILE, HostStatus, parse_status

_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_ONE_OFF = "com.docker.compose.oneoff"
#: Seconds for one question to the engine.
_ASK_SECONDS = 20.0


def containers_status(project: str) -> dict[str, Any] | None:
    """As `cluster_status`, for the containers of a Compose project; None if there are none."""
    found = _inspected(project)
    hosts = [_host(one) for one in found if _words(one)[:1] == ["host"]]
    if not hosts:
        return None
    return {
        "name": project,
        "running": all(host["state"] == HostState.RUNNING for host in hosts),
        **leader_of(hosts),
        "queues": "as the containers were told",
        "broker": None,
        "hosts": sorted(hosts, key=lambda host: str(host["name"])),
        "gateways": [host["gateway"] for host in hosts if host["gateway"]],
        "operator_token_file": None,
    }


def _inspected(project: str) -> list[dict[str, Any]]:
    filters = [f"label={_PROJECT}={project}", f"label={_ONE_OFF}=False"]
    ids = _docker("ps", "-aq", *(word for one in filters for word in ("--filter", one))).split()
    found = json.loads(_docker("inspect", *ids)) if ids else []
    assert isinstance(found, list)
    return found


def _host(container: dict[str, Any]) -> dict[str, Any]:
    alive = container["State"]["Status"] == "running"
    report = _report(container) if alive else None
    return {
        "name": container["Config"]["Labels"][_SERVICE],
        "id": "-",
        "pid": container["State"]["Pid"] or None,
        "state": _state(container["State"], report),
        "error": report.error if report else None,
        "gateway": _gateway(container),
        "data_dir": _option(container, "--data-dir"),
        "follows": report.leader if report else None,
        "term": report.term if report else None,
        "workers": workers_of(report),
    }


def _state(state: dict[str, Any], report: HostStatus | None) -> str:
    if state["Status"] == "running":
        return report.state if report else HostState.STARTING
    if state["Status"] == "exited":
        return DEAD if state["ExitCode"] else HostState.STOPPED
    return str(state["Status"])


def _report(container: dict[str, Any]) -> HostStatus | None:
    path = f"{_option(container, '--data-dir')}/{STATUS_FILE}"
    try:
        return parse_status(_docker("exec", container["Id"], "cat", path))
    except BooksanError:
        # It has ended since, or has not come so far yet.
        return None


def _gateway(container: dict[str, Any]) -> str:
    """Where it is published; nothing if it is not."""
    ports = container["NetworkSettings"]["Ports"] or {}
    found = [one for places in ports.values() for one in places or ()]
    return f"http://{found[0]['HostIp']}:{found[0]['HostPort']}" if found else ""


def _option(container: dict[str, Any], name: str) -> str:
    words = _words(container)
    return words[words.index(name) + 1] if name in words[:-1] else ""


def _words(container: dict[str, Any]) -> list[str]:
    return list(container["Config"]["Cmd"] or ())


def _docker(*words: str) -> str:
    command: Sequence[str] = ("docker", *words)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
        )
    except FileNotFoundError:
        raise BooksanError("there is no command `docker` on this machine; install it") from None
    except subprocess.TimeoutExpired:
        raise BooksanError(f"the Docker engine did not answer within {_ASK_SECONDS:g} s") from None
    if done.returncode != 0:
        raise BooksanError(f"`docker {words[0]}` failed: {done.stderr.strip()}")
    return done.stdout
