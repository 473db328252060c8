"""`python -m booksan.membership.revive_docker SERVICE [if-killed]`: a container is started again.

The container is that of the service in the Compose project of the container that asks. Harmless
when done twice: one that has just been started is left alone. The engine is never asked whether a
host is alive: a container that runs is asked itself, for the heartbeat of its supervisor, which may
only be deaf to datagrams. It is asked how the container ended, since one that was stopped in order
must stay so.

With `if-killed`, for the broker, only one that was killed is started: Docker itself brings back one
that died, except after `docker kill`. One that runs may still be starting, and is never killed.
"""

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from booksan.errors import BooksanError, UsageError
from booksan.host.logs import log
from booksan.host.status import EXIT_AT_WORK, EXIT_CANNOT_START
from booksan.membership.reviver import IF_KILLED

PROJECT, SERVICE, ONE_OFF = (
    f"com.docker.compose.{name}" for name in ("project", "service", "oneoff")
)
#: The project, for a host whose container has another name for itself than the engine has.
PROJECT_VARIABLE = "BOOKSAN_COMPOSE_PROJECT"

#: Seconds in which a container that was just started need not answer yet.
YOUNG = 10.0
#: Seconds for one question to the engine, and until a killed container must be gone.
_ASK_SECONDS = 20
#: Exit codes of a host that ended for good: in order, or because its configuration is wrong.
FOR_GOOD = frozenset({0, UsageError.exit_code, EXIT_CANNOT_START})
#: Run inside of a container: all are made from one image.
_HEARTBEAT = [sys.executable, "-P", "-m", "booksan.membership.liveness"]
#: The exit code of a container whose first process got SIGKILL.
KILLED = 137


def main(arguments: Sequence[str]) -> int:
    # Only here: the supervisor itself, and hosts without Docker, need not load the library.
    import docker
    import docker.errors
    from requests import RequestException

    try:
        engine = docker.from_env(timeout=_ASK_SECONDS)
        try:
            return revive(engine, arguments[0], if_killed=IF_KILLED in arguments[1:])
        finally:
            engine.close()
    except (docker.errors.DockerException, RequestException, BooksanError) as error:
        log("revival", f"cannot start {arguments[0]} again: {error}")
        return 1


def revive(engine: Any, service: str, *, if_killed: bool = False) -> int:
    container = _container(engine, _project(engine), service)
    state = container.attrs["State"]
    reason = why_not_killed(state) if if_killed else why_not(state, time.time())
    if reason is not None:
        log("revival", f"leaves {service}: {reason}")
        return 0
    if state["Status"] == "running" and _is_at_work(container):
        return EXIT_AT_WORK
    if state["Status"] in ("running", "paused"):
        _end(container, state["Status"])
    container.start()
    log("revival", f"started {service} again, container {container.short_id}")
    return 0


def _is_at_work(container: Any) -> bool:
    from docker.errors import APIError

    try:
        return bool(container.exec_run(_HEARTBEAT).exit_code == 0)
    except APIError as error:
        log("revival", f"cannot ask the container for its heartbeat: {error}")
        return False


def why_not(state: Mapping[str, Any], now: float) -> str | None:
    """Why a container must not be started again; None if it must. `state`: as inspected."""
    status = state["Status"]
    if status == "exited":
        code = state["ExitCode"]
        return f"it ended for good, with code {code}" if code in FOR_GOOD else None
    if status == "running":
        age = now - _seconds(state["StartedAt"])
        return f"it was started {age:.1f} s ago" if 0 <= age < YOUNG else None
    return None if status == "paused" else f"it is {status}"


def why_not_killed(state: Mapping[str, Any]) -> str | None:
    """As `why_not`, for one that is started only if somebody killed it."""
    if state["Status"] != "exited":
        return f"it is {state['Status']}"
    code = state["ExitCode"]
    return None if code == KILLED else f"it was not killed: it ended with code {code}"


def _project(engine: Any) -> str:
    named = os.environ.get(PROJECT_VARIABLE)
    if named:
        return named
    me = engine.containers.get(socket.gethostname())
    project = me.labels.get(PROJECT)
    if not project:
        raise BooksanError(f"this container is not one of Compose; set {PROJECT_VARIABLE}")
    return str(project)


def _container(engine: Any, project: str, service: str) -> Any:
    labels = [f"{PROJECT}={project}", f"{SERVICE}={service}", f"{ONE_OFF}=False"]
    found = engine.containers.list(all=True, filters={"label": labels})
    if len(found) != 1:
        raise BooksanError(
            f"the project {project} has {len(found)} containers of the service, not one"
        )
    return found[0]


def _end(container: Any, status: str) -> None:
    """Kill before start: a paused or hanging one cannot be asked. Workers die with it."""
    from docker.errors import APIError

    log("revival", f"kills the old container, which is {status}")
    try:
        container.kill()
    except APIError:
        # It ended by itself just now, or the engine does not kill what is paused.
        container.reload()
        if container.status == "paused":
            container.unpause()
            container.kill()
        elif container.status == "running":
            raise
    container.wait(timeout=_ASK_SECONDS)


def _seconds(text: str) -> float:
    """Of a time of the engine, which tells nanoseconds: more than Python reads."""
    return datetime.fromisoformat(f"{text.partition('.')[0].rstrip('Z')}+00:00").timestamp()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
