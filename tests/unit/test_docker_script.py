"""scripts/docker on machines that lack something; docker and the like are stand-ins."""

import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
#: The command that is run in the end: it tells what it was told.
TELL = 'echo "lack: ${BOOKSAN_DOCKER_LACK-nothing}"; exit ${TELL_CODE:-0}'
#: Commands that the script uses up to the point at which it misses docker.
NEEDED = [
    *("awk", "chmod", "cut", "date", "dirname", "flock", "grep", "mkdir", "mktemp", "od", "rm"),
    *("sh", "tail", "timeout", "tr", "uname"),
]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is made for Linux")


class _Door(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody wants to know."""


@pytest.fixture
def port() -> Iterator[int]:
    """What answers in place of a container."""
    with HTTPServer(("127.0.0.1", 0), _Door) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


class Machine:
    """A place for stand-ins, and for what the script keeps."""

    def __init__(self, root: Path, port: int) -> None:
        self.tools, self.kept = root / "tools", root / "cache" / "booksan-docker"
        self.tools.mkdir()
        self.kept.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(root / "engine"))
        self.env = {
            **os.environ,
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "XDG_CACHE_HOME": str(root / "cache"),
            "DOCKER_SOCKET": str(root / "engine"),
            "DEBIAN_MIRROR": "http://127.0.0.1:9/debian",
            "no_proxy": "127.0.0.1",
        }
        self.env.pop("BOOKSAN_DOCKER_LACK", None)
        self.stand_in("id", "echo 0")
        self.stand_in("df", "echo; echo / 9999999 1 9999999")
        self.stand_in("docker-compose", "exit 0")
        self.stand_in("debootstrap", 'echo "E: failed to get anything"; exit 1')
        self.stand_in("dockerd", 'echo "failed to start: no cgroups"; exit 1')
        # An engine with all images, whose containers are reached.
        self.docker(f'port) echo "127.0.0.1:{port}" ;;')
        self.put_wheels()

    def stand_in(self, name: str, text: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def docker(self, cases: str) -> None:
        """What it does by its first word; everything else succeeds."""
        self.stand_in("docker", f'case "$1" in\n{cases}\nesac')

    def put_wheels(self) -> None:
        found = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        needed = found["dependencies"]
        (self.kept / "wheels").mkdir()
        (self.kept / "wheels" / "needed").write_text("\n".join(needed) + "\n")
        (self.kept / "wheels" / "one.whl").touch()

    def run(self) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [ROOT / "scripts/docker", "sh", "-c", TELL],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path, port: int) -> Machine:
    return Machine(tmp_path, port)


def lack(machine: Machine) -> str:
    done = machine.run()
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_machine_with_an_engine_lacks_nothing(machine: Machine) -> None:
    assert lack(machine) == "lack: nothing"


def test_how_the_command_ends_is_how_it_ends(machine: Machine) -> None:
    machine.env["TELL_CODE"] = "7"
    assert machine.run().returncode == 7


def test_an_image_that_cannot_be_built_is_a_failure(machine: Machine, port: int) -> None:
    machine.docker(f'port) echo "127.0.0.1:{port}" ;; build) echo "no such step"; exit 1 ;;')
    done = machine.run()
    assert done.returncode == 1
    assert "no such step" in done.stderr
    assert "lack" not in done.stdout


def test_without_docker_and_a_way_to_install_it_that_is_the_reason(machine: Machine) -> None:
    (machine.tools / "docker").unlink()
    # Only what the script itself needs: neither docker nor apt-get.
    for name in NEEDED:
        path = next(p for d in ("/usr/bin", "/bin") if (p := Path(d) / name).exists())
        (machine.tools / name).symlink_to(path)
    machine.env["PATH"] = str(machine.tools)
    assert "docker.io, docker-compose or debootstrap cannot be had" in lack(machine)


def test_an_engine_that_does_not_start_is_the_reason(machine: Machine) -> None:
    machine.stand_in("docker", "exit 1")
    found = lack(machine)
    assert "no engine runs and none can be started: failed to start: no cgroups" in found


def test_a_mirror_that_does_not_answer_is_the_reason(machine: Machine) -> None:
    machine.docker("image) exit 1 ;;")
    found = lack(machine)
    assert "the base image cannot be made" in found
    assert "Connection refused" in found


def test_containers_that_do_not_run_are_the_reason(machine: Machine) -> None:
    machine.docker('run) echo "OCI runtime error: no overlay" >&2; exit 125 ;;')
    assert "containers do not run here: OCI runtime error: no overlay" in lack(machine)


def test_containers_that_cannot_be_reached_are_the_reason(machine: Machine) -> None:
    machine.docker('port) echo "no public port, error"; exit 1 ;;')
    assert "containers do not run here" in lack(machine)


def test_libraries_that_cannot_be_downloaded_are_the_reason(machine: Machine) -> None:
    (machine.kept / "wheels" / "needed").write_text("others\n")
    machine.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}
    found = lack(machine)
    assert "the libraries cannot be downloaded: ERROR: No matching distribution" in found


def test_a_machine_that_takes_too_long_is_not_waited_for(machine: Machine) -> None:
    machine.docker("image) sleep 60 ;;")
    machine.env["BOOKSAN_DOCKER_SECONDS"] = "2"
    assert "the base image cannot be made: it takes longer than 2 s" in lack(machine)


def test_a_full_disk_is_the_reason(machine: Machine) -> None:
    machine.stand_in("df", "echo; echo / 9 9 9")
    assert "4 GB are free" in lack(machine)
