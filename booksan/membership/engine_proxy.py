"""`python -m booksan.membership.engine_proxy SOCKET`: a Docker socket that is no master key.

Whoever has the engine's socket is root on the machine. A container of its own has it, and listens
on another socket for the hosts. It passes on what a revival needs: to list and inspect the
containers of its Compose project, and to start, kill, unpause and wait for one of them. Everything
else is refused here, and never reaches the engine.
"""

import http.client
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from booksan.host.logs import log
from booksan.membership.revive_docker import PROJECT, PROJECT_VARIABLE

ENGINE_SOCKET = "/var/run/docker.sock"
#: Seconds for one answer of the engine; it is asked to wait for the end of a container too.
_SECONDS = 60.0

#: Bytes of a body that are taken; a revival sends none.
_BODY = 64 * 1024

_NAME = r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]{0,127})"
_VERSION = r"(?:/v[0-9]+\.[0-9]+)?"
_ANYBODY = re.compile(rf"{_VERSION}/(?:version|_ping)")
_LIST = re.compile(rf"{_VERSION}/containers/json")
_INSPECT = re.compile(rf"{_VERSION}/containers/{_NAME}/json")
_ACT = re.compile(rf"{_VERSION}/containers/{_NAME}/(?:start|kill|unpause|wait)")


class Refused(Exception):
    """Told to whoever asked."""


class Answer(NamedTuple):
    status: int
    body: bytes


class Engine:
    """The real one, asked over its socket."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, method: str, target: str) -> Answer:
        connection = http.client.HTTPConnection("engine", timeout=_SECONDS)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.sock.settimeout(_SECONDS)
            connection.sock.connect(self._path)
            connection.request(method, target, headers={"Content-Length": "0"})
            found = connection.getresponse()
            return Answer(found.status, found.read())
        finally:
            connection.close()

    def labels(self, container: str) -> Mapping[str, Any]:
        """Of a container; none if there is no such one."""
        answer = self.ask("GET", f"/containers/{container}/json")
        found = json.loads(answer.body) if answer.status == 200 else {}
        return found.get("Config", {}).get("Labels") or {}


class Policy:
    """What is passed on, for one project."""

    def __init__(self, engine: Engine, project: str) -> None:
        self._engine = engine
        self._project = project

    def answer(self, method: str, target: str) -> Answer:
        return self._engine.ask(method, self._allowed(method, target))

    def _allowed(self, method: str, target: str) -> str:
        """The request as it is made to the engine. Nothing of its body is ever passed on."""
        path, query = urlsplit(target).path, urlsplit(target).query
        if method == "GET" and _ANYBODY.fullmatch(path):
            return path
        if method == "GET" and _LIST.fullmatch(path):
            return f"{path}?{self._narrowed(query)}"
        form = {"GET": _INSPECT, "POST": _ACT}.get(method)
        found = form.fullmatch(path) if form else None
        if found is None:
            raise Refused(f"{method} {path} is not passed on")
        name = found["name"]
        if self._engine.labels(name).get(PROJECT) != self._project:
            raise Refused(f"{name} is no container of the project {self._project}")
        # Without the query: the signal of a kill is SIGKILL, and nothing is detached.
        return path

    def _narrowed(self, query: str) -> str:
        """The list of this project's containers, with the other filters as they were."""
        given = parse_qs(query)
        try:
            filters = json.loads(given.get("filters", ["{}"])[0])
            labels = [each for each in filters.get("label", ()) if isinstance(each, str)]
        except (ValueError, AttributeError, TypeError):
            raise Refused("the filters are not JSON as the engine has it") from None
        labels = [each for each in labels if not each.startswith(PROJECT)]
        narrowed = {"label": [*labels, f"{PROJECT}={self._project}"]}
        every = "1" if given.get("all", ["0"])[0].lower() in ("1", "true") else "0"
        return urlencode({"all": every, "filters": json.dumps(narrowed)})


class EngineProxy(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, policy: Policy) -> None:
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Request)
        # The hosts are other containers of the same image, and so of the same user.
        path.chmod(0o600)
        self.policy = policy


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS
    server: EngineProxy

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        # Taken, so that who sends it gets to hear the answer, and thrown away.
        length = self.headers.get("Content-Length", "0")
        self.rfile.read(min(int(length), _BODY) if length.isdecimal() else 0)
        self.close_connection = True
        self._pass_on()

    def _pass_on(self) -> None:
        try:
            answer = self.server.policy.answer(self.command, self.path)
        except Refused as error:
            log("engine-proxy", str(error))
            answer = Answer(403, json.dumps({"message": str(error)}).encode())
        except (OSError, ValueError, http.client.HTTPException) as error:
            answer = Answer(502, json.dumps({"message": f"the engine: {error}"}).encode())
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        bodiless = answer.status in (204, 304)
        if not bodiless:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if not bodiless:
            self.wfile.write(answer.body)

    def address_string(self) -> str:
        """A socket of this kind has no address."""
        return "host"

    def log_message(self, format: str, *args: Any) -> None:
        """What is refused is told; the rest is the engine's to tell."""


def own_project(engine: Engine) -> str:
    named = os.environ.get(PROJECT_VARIABLE) or engine.labels(socket.gethostname()).get(PROJECT)
    if not named:
        raise Refused(f"this container is not one of Compose; set {PROJECT_VARIABLE}")
    return str(named)


def main(arguments: Sequence[str]) -> int:
    engine = Engine(ENGINE_SOCKET)
    try:
        project = own_project(engine)
    except (Refused, OSError, ValueError) as error:
        log("engine-proxy", f"cannot start: {error}")
        return 1
    # Process 1 of a container is deaf to signals that it does not catch.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with EngineProxy(Path(arguments[0]), Policy(engine, project)) as proxy:
        log("engine-proxy", f"open for the project {project}")
        proxy.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
