"""Of the engine's powers the hosts get those that a revival needs, within their project."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from booksan.membership.engine_proxy import Engine, EngineProxy, Policy, Refused, own_project

PROJECT = "com.docker.compose.project"
CONTAINERS = {"mine": {PROJECT: "books"}, "other": {PROJECT: "bank"}, "bare": None}
LIST_FILTERS = {"label": ["com.docker.compose.service=beta", f"{PROJECT}=bank"]}


class FakeEngine(ThreadingMixIn, UnixStreamServer):
    """Answers as the engine does, and remembers what reached it."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        super().__init__(path, _EngineRequest)
        self.asked: list[tuple[str, str]] = []


class _EngineRequest(BaseHTTPRequestHandler):
    server: FakeEngine

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.asked.append((self.command, self.path))
        parts = urlsplit(self.path).path.removeprefix("/v1.41").strip("/").split("/")
        status, body = 200, b"{}"
        if parts[0] == "containers" and parts[-1] == "json" and len(parts) == 3:
            known = parts[1] in CONTAINERS
            labels = CONTAINERS.get(parts[1])
            status = 200 if known else 404
            body = json.dumps({"Config": {"Labels": labels}}).encode()
        elif self.command == "POST" and parts[-1] == "start":
            status, body = 204, b""
        self.send_response(status)
        if body:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "door"

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeEngine]:
    with FakeEngine(str(tmp_path / "engine")) as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def door(engine: FakeEngine, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "door"
    with EngineProxy(path, Policy(Engine(str(tmp_path / "engine")), "books")) as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield path
        found.shutdown()


def ask(door: Path, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("docker", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.connect(str(door))
    try:
        connection.request(method, target, body or None)
        found = connection.getresponse()
        return found.status, found.read()
    finally:
        connection.close()


@pytest.mark.parametrize("version", ["", "/v1.41"])
def test_what_a_revival_needs_is_passed_on(door: Path, engine: FakeEngine, version: str) -> None:
    assert ask(door, "GET", f"{version}/version")[0] == 200
    status, body = ask(door, "GET", f"{version}/containers/mine/json")
    assert (status, json.loads(body)["Config"]["Labels"]) == (200, CONTAINERS["mine"])
    assert ask(door, "POST", f"{version}/containers/mine/start") == (204, b"")
    for act in ("kill", "unpause", "wait"):
        assert ask(door, "POST", f"{version}/containers/mine/{act}")[0] == 200
        assert engine.asked[-1] == ("POST", f"{version}/containers/mine/{act}")


def test_the_list_is_that_of_the_project_whatever_is_asked_for(
    door: Path, engine: FakeEngine
) -> None:
    filters = quote(json.dumps(LIST_FILTERS | {"volume": ["x"]}))
    assert ask(door, "GET", f"/v1.41/containers/json?all=1&size=1&filters={filters}")[0] == 200
    query = parse_qs(urlsplit(engine.asked[-1][1]).query)
    assert query.keys() == {"all", "filters"}
    assert query["all"] == ["1"]
    assert json.loads(query["filters"][0]) == {
        "label": ["com.docker.compose.service=beta", f"{PROJECT}=books"]
    }


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/containers/create"),
        ("POST", "/v1.41/containers/create?name=x"),
        ("POST", "/containers/mine/exec"),
        ("POST", "/exec/1/start"),
        ("POST", "/containers/mine/update"),
        ("POST", "/images/create?fromImage=x"),
        ("POST", "/containers/mine/start/../../create"),
        ("POST", "/containers/..%2fcreate/start"),
        ("GET", "/containers/mine/archive?path=/"),
        ("GET", "/containers/mine/logs"),
        ("GET", "/containers/mine/attach/ws"),
        ("GET", "/volumes"),
        ("GET", "/containers/json?filters=[1]"),
        ("GET", "/containers/json?filters=nonsense"),
        # Of others, or of nobody.
        ("GET", "/containers/other/json"),
        ("POST", "/containers/other/kill"),
        ("POST", "/containers/bare/start"),
        ("POST", "/containers/nobody/start"),
    ],
)
def test_nothing_else_reaches_the_engine(
    door: Path, engine: FakeEngine, method: str, target: str
) -> None:
    status, body = ask(door, method, target, b'{"Binds": ["/:/host"]}' if method == "POST" else b"")
    assert status == 403
    assert json.loads(body)["message"]
    # To look up whose a container is, it is inspected, and no more.
    assert all(asked == "GET" and path.endswith("/json") for asked, path in engine.asked)


@pytest.mark.parametrize("method", ["DELETE", "PUT", "HEAD", "PATCH"])
def test_other_methods_are_not_known(door: Path, engine: FakeEngine, method: str) -> None:
    assert ask(door, method, "/containers/mine")[0] == 501
    assert engine.asked == []


def test_the_signal_of_a_kill_cannot_be_chosen(door: Path, engine: FakeEngine) -> None:
    assert ask(door, "POST", "/containers/mine/kill?signal=SIGSTOP")[0] == 200
    assert engine.asked[-1] == ("POST", "/containers/mine/kill")


def test_the_door_is_open_to_its_own_user_alone(door: Path) -> None:
    assert door.stat().st_mode & 0o777 == 0o600


def test_an_engine_that_is_down_is_told(door: Path, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "engine").unlink()
    status, body = ask(door, "GET", "/version")
    assert status == 502
    assert "engine" in json.loads(body)["message"]


def test_the_project_is_that_of_the_doors_own_container(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOOKSAN_COMPOSE_PROJECT", raising=False)
    real = Engine(str(tmp_path / "engine"))
    monkeypatch.setattr(socket, "gethostname", lambda: "other")
    assert own_project(real) == "bank"
    monkeypatch.setattr(socket, "gethostname", lambda: "bare")
    with pytest.raises(Refused, match="BOOKSAN_COMPOSE_PROJECT"):
        own_project(real)
    monkeypatch.setenv("BOOKSAN_COMPOSE_PROJECT", "books")
    assert own_project(real) == "books"
