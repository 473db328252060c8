"""`booksan doctor`: what it warns of, what it fails, and that it says what to do."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from booksan import doctor
from booksan.doctor import Finding, Level
from booksan.errors import EXIT_NOT_WELL
from booksan.topology.model import Address, Topology
from booksan.topology.parse import load_topology

GB = 1 << 30


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("BOOKSAN_QUEUES", raising=False)
    return tmp_path / "booksan"


@pytest.fixture
def free_single() -> Topology:
    """The topology `single` on ports that nobody uses."""
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        ports = (udp.getsockname()[1], tcp.getsockname()[1])
    return load_topology("single").with_ports({"single": ports})


@contextmanager
def gateway(port: int, host: str, date: str | None = None) -> Iterator[None]:
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"status": "ok", "host": host, "version": "0"}).encode()
            self.send_response_only(200)
            if date:
                self.send_header("Date", date)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the terminal of the tests."""

    server = http.server.HTTPServer(("127.0.0.1", port), Health)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def levels(findings: Iterator[Finding]) -> dict[str, Level]:
    return {finding.what: finding.level for finding in findings}


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (doctor.check_sqlite((3, 35, 0)), Level.OK),
        (doctor.check_sqlite((3, 34, 9)), Level.FAIL),
        (doctor.check_library("polars"), Level.OK),
        (doctor.check_library("no-such-library"), Level.FAIL),
        (doctor.check_server(None), Level.WARN),
        (doctor.check_server(Path("/opt/rabbitmq_server-4.0.5/sbin/rabbitmq-server")), Level.OK),
        (doctor.check_space(5 * GB, Path("/d")), Level.OK),
        (doctor.check_space(GB // 2, Path("/d")), Level.WARN),
        (doctor.check_space(1000, Path("/d")), Level.FAIL),
        (doctor.check_open_files(65536), Level.OK),
        (doctor.check_open_files(-1), Level.OK),
        (doctor.check_open_files(512), Level.WARN),
        (doctor.check_open_files(100), Level.FAIL),
        (doctor.check_clock(1_800_000_000), Level.OK),
        (doctor.check_clock(0), Level.FAIL),
        (doctor.check_file_times(0.3, Path("/d")), Level.OK),
        (doctor.check_file_times(-60, Path("/d")), Level.WARN),
    ],
)
def test_each_limit_has_its_level_and_trouble_has_advice(finding: Finding, level: Level) -> None:
    assert finding.level is level
    assert bool(finding.advice) == (level is not Level.OK)


def test_a_directory_of_ours_alone_is_fine_and_one_for_all_is_not(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    assert levels(doctor.check_directory(mine))["directory"] is Level.OK
    mine.chmod(0o777)
    assert levels(doctor.check_directory(mine))["directory"] is Level.WARN
    assert list(mine.iterdir()) == []
    file = tmp_path / "file"
    file.write_text("")
    assert levels(doctor.check_directory(file))["directory"] is Level.FAIL


def test_free_ports_are_fine_and_taken_ones_are_named(free_single: Topology) -> None:
    host = free_single.hosts["single"]
    assert levels(doctor.check_hosts(free_single.hosts.values())) == {"host single": Level.OK}
    with socket.socket() as other:
        other.bind(("127.0.0.1", host.gateway.port))
        other.listen()
        # Whatever it is, it is no gateway: it hangs up.
        accept = threading.Thread(target=lambda: other.accept()[0].close())
        accept.start()
        (finding,) = doctor.check_hosts(free_single.hosts.values())
        accept.join()
    assert finding.level is Level.FAIL
    assert str(host.gateway) in finding.found


def test_a_host_that_runs_is_no_trouble_and_its_clock_is_compared(free_single: Topology) -> None:
    port = free_single.hosts["single"].gateway.port
    with gateway(port, "single"):
        assert levels(doctor.check_hosts(free_single.hosts.values())) == {"host single": Level.OK}
    with gateway(port, "single", date="Thu, 01 Jan 2026 00:00:00 GMT"):
        found = levels(doctor.check_hosts(free_single.hosts.values()))
    assert found == {"host single": Level.OK, "clock of single": Level.WARN}
    with gateway(port, "another"):
        assert levels(doctor.check_hosts(free_single.hosts.values())) == {"host single": Level.FAIL}


def test_a_host_on_another_machine_is_left_to_the_doctor_there() -> None:
    single = load_topology("single")
    host = single.hosts["single"]
    # An address for documents, which no machine has.
    far = Address("192.0.2.1", 1)
    assert not doctor._is_here(far)
    assert doctor._is_here(host.gateway)


def test_a_broker_that_is_not_there_fails_without_its_password() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        finding = doctor.check_queues(f"amqp://me:geheim@127.0.0.1:{port}/")
    assert finding.level is Level.FAIL
    assert "geheim" not in str(finding)


def test_the_exit_code_tells_whether_anything_failed(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What else runs on this machine is not the matter here.
    monkeypatch.setattr(doctor, "check_hosts", lambda hosts: iter(()))
    assert doctor.doctor_command("single", None, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    assert {"SQLite", "polars", "disk", "clock", "open files", "queues"} <= {
        finding["what"] for finding in found["findings"]
    }
    assert doctor.doctor_command("nonsense", None, as_json=False) == EXIT_NOT_WELL
    assert "fail  topology" in capsys.readouterr().out
    assert not state.exists(), "looking changes nothing"
