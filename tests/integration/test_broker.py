"""The promises of a broker of our own, and of its keeper."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from booksan.broker import Broker, files, find_server, read_status, require_server
from booksan.broker.node import find_leftovers
from booksan.errors import BooksanError, UsageError
from booksan.transport import Outgoing, open_transport
from tests.support.broker import broker as broker
from tests.support.places import PROJECT, SOON, drain, eventually

#: Seconds for a node to start on a machine that is busy.
BOOT_SECONDS = 120.0


class Keeper:
    """python -m booksan.broker in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "booksan.broker", str(directory)],
            cwd=PROJECT,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self, restarts: int = 0) -> dict[str, Any]:
        """Its status as soon as the node is up for that time."""
        found: list[dict[str, Any]] = []

        def is_up() -> bool:
            assert self.process.poll() is None, "the keeper ended"
            status = read_status(self.directory) or {}
            found.append(status)
            mine = status.get("keeper") == self.process.pid
            return mine and status["ready"] and status["restarts"] == restarts

        assert eventually(is_up, BOOT_SECONDS)
        return found[-1]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=SOON)
        return self.process.returncode, errors


@pytest.fixture
def new_keeper(place: Path) -> Iterator[Callable[[], Keeper]]:
    keepers: list[Keeper] = []

    def new() -> Keeper:
        keepers.append(Keeper(place))
        return keepers[-1]

    yield new
    for keeper in keepers:
        if keeper.process.returncode is None:
            keeper.end(signal.SIGKILL)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    if find_server() is None:
        pytest.skip("there is no rabbitmq-server: run scripts/rabbitmq to install it")
    directory = tmp_path / "a broker"
    yield directory
    for process in find_leftovers(directory):
        process.kill()


def check_refused(other: Keeper) -> None:
    _, errors = other.process.communicate(timeout=SOON)
    assert other.process.returncode == UsageError.exit_code
    assert "another process" in errors


def test_a_keeper_and_its_node_may_be_killed_and_nothing_is_lost_or_left_behind(
    place: Path, new_keeper: Callable[[], Keeper]
) -> None:
    keeper = new_keeper()
    first = keeper.ready()
    assert stat.S_IMODE((place / "broker.json").stat().st_mode) == 0o600
    with open_transport(first["url"]) as transport:
        transport.publish([Outgoing("work", b"x")])
        check_refused(new_keeper())
        os.kill(first["pid"], signal.SIGKILL)
        second = keeper.ready(restarts=1)
        assert second["url"] == first["url"]
        assert second["pid"] != first["pid"]
        assert drain(transport, "work") == [b"x"]
        transport.publish([Outgoing("work", b"y")])
        keeper.end(signal.SIGKILL)
        if sys.platform == "linux":
            assert eventually(lambda: not list(find_leftovers(place)))
        keeper = new_keeper()
        assert keeper.ready()["url"] == first["url"]
        assert drain(transport, "work") == [b"y"]
    code, errors = keeper.end(signal.SIGTERM)
    assert (code, "Traceback" in errors) == (0, False)
    status = read_status(place)
    assert status is not None
    assert (status["ready"], status["pid"]) == (False, None)
    assert list(find_leftovers(place)) == []


def test_a_keeper_that_is_stopped_while_its_node_starts_leaves_nothing(
    place: Path, new_keeper: Callable[[], Keeper]
) -> None:
    keeper = new_keeper()
    assert eventually(lambda: len(list(find_leftovers(place))) >= 2)
    assert keeper.end(signal.SIGTERM)[0] == 0
    assert list(find_leftovers(place)) == []


def test_a_node_whose_port_is_taken_says_so(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(BooksanError, match=f"has the port {port}"):
            Broker(place, port).start()


def test_a_node_that_cannot_start_tells_the_end_of_its_log(place: Path) -> None:
    node = Broker(place)
    (place / "conf.d").mkdir(parents=True)
    (place / "conf.d" / "more.conf").write_text("nonsense = 1\n")
    with pytest.raises(
        BooksanError, match=r"(?s)ended while it started.*failed_to_prepare_configuration"
    ):
        node.start()
    assert node.pid is None
    assert list(find_leftovers(place)) == []


def test_a_node_listens_on_the_loopback_only_and_its_secrets_are_private(broker: Broker) -> None:
    listening = [
        connection.laddr
        for process in find_leftovers(broker.directory)
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert broker.port in {address.port for address in listening}
    assert {address.ip for address in listening} <= {"127.0.0.1", "::1"}
    for name in ("credentials", "rabbitmq.conf", "home/.erlang.cookie"):
        assert stat.S_IMODE((broker.directory / name).stat().st_mode) & 0o077 == 0
    for process in find_leftovers(broker.directory):
        assert broker.url.split(":")[2].partition("@")[0] not in " ".join(process.cmdline())


def test_a_running_broker_is_not_started_twice(broker: Broker) -> None:
    pid = broker.pid
    broker.start()
    assert broker.pid == pid
    with pytest.raises(UsageError, match="run by another process"):
        Broker(broker.directory, broker.port).start()
    assert broker.pid == pid


def test_a_machine_without_a_server_is_told_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert files.find_server() is None
    with pytest.raises(UsageError, match="scripts/rabbitmq"):
        require_server()
