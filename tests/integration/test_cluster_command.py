"""`booksan cluster`: all hosts of a topology in the background, and their certain end."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from booksan.cluster.paths import all_free, any_ports, read_record, write_record
from booksan.cluster.processes import ProcessId, identify, is_alive, send, wait_gone
from booksan.cluster.start import Start, UpOptions
from booksan.cluster.status import cluster_status
from booksan.errors import EXIT_NOT_WELL, UsageError
from booksan.state.client import database_path
from booksan.topology.parse import load_topology
from tests.integration.test_gateway import certificate
from tests.support.command import PATIENCE, Place, wait_until
from tests.support.hosts import command, place_for_hosts, read_json, two_hosts

WAIT = ("--wait", str(PATIENCE))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


def up(place: Place, *more: str | Path) -> str:
    done = command(place, "cluster", "up", *more, *WAIT)
    assert done.code == 0, done.err
    return done.out


def status(place: Place) -> dict[str, Any]:
    done = command(place, "cluster", "status", "--json")
    found = done.document
    assert done.code == (0 if found["running"] else EXIT_NOT_WELL)
    return found


def look(place: Place) -> dict[str, Any]:
    """The same without a process of its own, for looking again and again."""
    directory = place.state / "booksan/clusters/two"
    record = read_record(directory)
    assert record is not None
    return cluster_status(directory, record)


def pids(found: dict[str, Any]) -> set[int]:
    return {host["pid"] for host in found["hosts"]} | {
        worker["pid"] for host in found["hosts"] for worker in host["workers"]
    }


def test_a_cluster_starts_is_mended_and_ends_without_a_trace(place: Place) -> None:
    config = two_hosts(place.root)
    said = up(place, config, "--any-ports")
    first = status(place)
    assert first["running"]
    assert [host["name"] for host in first["hosts"]] == ["alpha", "beta"]
    assert all(url in said for url in first["gateways"])
    names = {worker["name"] for host in first["hosts"] for worker in host["workers"]}
    assert {"q3-join.0", "results.0", "q4-top.0", "gateway.0"} <= names
    assert pids(first) <= set(psutil.pids())
    token = Path(first["operator_token_file"])
    assert token.stat().st_mode & 0o777 == 0o600

    assert "runs already" in up(place, config)
    assert pids(look(place)) == pids(first)

    # All at once, because one that is left would bring the others back by itself.
    for host in first["hosts"]:
        os.kill(host["pid"], signal.SIGKILL)
    wait_until(lambda: all(host["state"] == "dead" for host in look(place)["hosts"]))
    assert not status(place)["running"]
    up(place, config)
    mended = look(place)
    assert mended["running"]
    assert mended["gateways"] == first["gateways"]
    assert pids(mended).isdisjoint(pids(first))

    os.kill(mended["hosts"][1]["pid"], signal.SIGTERM)
    wait_until(lambda: look(place)["hosts"][1]["state"] == "stopped")
    assert "started beta; alpha ran already" in up(place, config)
    assert look(place)["hosts"][0]["pid"] == mended["hosts"][0]["pid"]

    assert command(place, "cluster", "down").code == 0
    assert not place.processes()
    stopped = look(place)
    assert [host["state"] for host in stopped["hosts"]] == ["stopped", "stopped"]
    assert token.exists()

    up(place, config)
    assert look(place)["gateways"] == first["gateways"], "the ports are kept"
    assert command(place, "cluster", "down", "--wipe").code == 0
    assert not place.processes()
    assert not token.parent.exists()


def free_ports(config: Path) -> None:
    """Nothing but the topology's own ports, for commands that know no others."""
    ports, _ = any_ports(load_topology(str(config)))
    text = config.read_text()
    for number, (address, gateway) in enumerate(ports.values(), 1):
        text = text.replace(f":740{number}", f":{address}").replace(f":730{number}", f":{gateway}")
    config.write_text(text)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_a_cluster_with_tls_is_started_looked_at_and_hit_by_its_certificates_authority(
    place: Place,
) -> None:
    config = two_hosts(place.root)
    free_ports(config)
    config.write_text(config.read_text().replace('gateway = "', 'gateway = "https://'))
    cert, key = certificate(place.root)
    tls = {"BOOKSAN_TLS_CERT": str(cert), "BOOKSAN_TLS_KEY": str(key)}
    trusted = tls | {"BOOKSAN_TLS_CA": str(cert)}
    done = command(place, "cluster", "up", config, *WAIT, env=trusted)
    assert done.code == 0, done.err
    gateways = look(place)["gateways"]
    assert all(url.startswith("https://") and url in done.out for url in gateways)

    found = command(place, "doctor", "--config", config, "--json", env=trusted).document
    at_work = [one for one in found["findings"] if "is at work, https://" in one["found"]]
    assert [one["what"] for one in at_work] == ["host alpha", "host beta"]
    words = ("chaos", "--target", "gateway", "--every", "1s", "--for", "3s", "--seed", "1")
    done = command(place, *words, "--json", env=trusted)
    assert done.code == 0, done.out + done.err
    assert done.document["kills"] > 0

    refused = command(place, "doctor", "--config", config, "--json").document["findings"]
    named = [one for one in refused if one["what"] in ("host alpha", "host beta")]
    assert all("certificate" in one["found"] for one in named)
    assert all("BOOKSAN_TLS_CA" in one["advice"] for one in named)
    assert command(place, "cluster", "down").code == 0


def test_a_host_that_is_stopped_or_hangs_ends_too(place: Place) -> None:
    up(place, two_hosts(place.root), "--any-ports")
    hosts = look(place)["hosts"]
    os.kill(hosts[0]["pid"], signal.SIGSTOP)
    os.kill(hosts[1]["workers"][0]["pid"], signal.SIGSTOP)
    assert command(place, "cluster", "down").code == 0
    assert not place.processes()


def test_a_failed_start_tells_why_and_leaves_nothing_running(place: Place) -> None:
    config = two_hosts(place.root)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        config.write_text(config.read_text().replace("7302", str(port)))
        taken.listen()
        done = command(place, "cluster", "up", config)
    assert done.code == 2
    assert f"127.0.0.1:{port}: Address already in use by process {os.getpid()}" in done.message
    assert "start the cluster with --any-ports" in done.message
    assert not place.processes()


def test_queues_that_cannot_be_reached_fail_the_start(place: Place) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        queues = f"amqp://u:geheim@127.0.0.1:{nobody.getsockname()[1]}/"
        words = ("cluster", "up", two_hosts(place.root), "--any-ports", "--wait", "5")
        done = command(place, *words, env={"BOOKSAN_QUEUES": queues})
    assert done.code == 1
    assert "was not at work within 5 s" in done.message
    assert "geheim" not in done.err + done.out
    assert not place.processes()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_start_that_is_interrupted_leaves_nothing_behind_that_down_does_not_end(
    place: Place, signum: signal.Signals
) -> None:
    words = ["cluster", "up", str(two_hosts(place.root)), "--any-ports"]
    logs = place.state / "booksan/clusters/two/hosts/alpha/logs/supervisor.log"
    with place.started(words) as process:
        wait_until(logs.exists)
        process.send_signal(signum)
        code = process.wait(PATIENCE)
    assert code in (1, 130, -signum)
    if signum is signal.SIGKILL:
        assert command(place, "cluster", "down").code == 0
    assert not place.processes()


def test_a_running_cluster_is_not_given_another_topology(place: Place) -> None:
    config = two_hosts(place.root)
    up(place, config, "--any-ports")
    config.write_text(config.read_text().replace("q3-join = [0]", "q3-join = [0, 1]"))
    done = command(place, "cluster", "up", config)
    assert done.code == 2
    assert "runs with another topology" in done.message
    config = two_hosts(place.root)
    done = command(place, "cluster", "up", config, "--with-broker")
    assert "runs without a broker of its own" in done.message
    elsewhere = {"BOOKSAN_QUEUES": f"spool:{place.root}/elsewhere"}
    done = command(place, "cluster", "up", config, env=elsewhere)
    assert "runs with the queues spool:" in done.message
    assert look(place)["running"]
    assert command(place, "cluster", "down").code == 0


def test_without_a_cluster_there_is_nothing_to_show_or_stop(place: Place) -> None:
    shown = command(place, "cluster", "status")
    assert shown.code == 9
    assert "no cluster in" in shown.message
    assert command(place, "cluster", "down", "two-towers").code == 0
    assert not place.state.exists() or not place.leftovers()


@pytest.mark.skipif(
    not (shutil.which("rabbitmq-server") or Path("/usr/sbin/rabbitmq-server").exists()),
    reason="there is no rabbitmq-server on this machine",
)
def test_a_cluster_with_its_own_broker_gets_it_back_and_ends_it(place: Place) -> None:
    up(place, two_hosts(place.root), "--any-ports", "--with-broker")
    found = status(place)
    assert found["running"]
    node = found["broker"]["pid"]
    assert "***" in found["broker"]["url"]
    record = place.state / "booksan/clusters/two/cluster.json"
    password = read_json(record.parent / "broker/broker.json")["url"].partition("@")[0][-16:]
    assert password not in record.read_text()
    assert password not in (record.parent / "hosts/alpha/host.json").read_text()
    for process in psutil.process_iter():
        try:
            assert password not in " ".join(process.cmdline())
        except psutil.Error:
            continue
    os.kill(node, signal.SIGKILL)
    wait_until(lambda: (look(place)["broker"] or {}).get("restarts") == 1)
    assert command(place, "cluster", "down", "--wipe").code == 0
    assert not place.processes()
    assert identify(node) is None


def test_a_host_that_unfinished_clients_need_cannot_be_left_out(place: Place) -> None:
    three = load_topology("three")
    start = Start(place.root, three, UpOptions())
    write_record(place.root, start.record)
    path = database_path(place.root / "hosts" / "gamma", "c1", "q4-top", 0)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a database that cannot be read may be needed " * 50)
    hosts = {name: host for name, host in three.hosts.items() if name != "gamma"}
    with pytest.raises(UsageError, match=r"no host gamma any more, but unfinished clients \(c1\)"):
        Start(place.root, replace(three, hosts=hosts), UpOptions())
    Start(place.root, three, UpOptions())


# -- the parts -------------------------------------------------------------------------------


def test_a_later_process_with_the_same_pid_is_never_taken_for_ours() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        mine = identify(process.pid)
        assert mine is not None
        other = ProcessId(process.pid, "another boot/1")
        assert is_alive(mine)
        assert not is_alive(other)
        send(other, signal.SIGKILL)
        assert wait_gone([mine], 0.2) == [mine]
        send(mine, signal.SIGKILL)
        assert wait_gone([mine], PATIENCE) == []
    assert identify(process.pid) is None
    send(mine, signal.SIGKILL)


def test_chosen_ports_are_free_and_all_different() -> None:
    ports, broker = any_ports(load_topology("three"))
    numbers = [port for pair in ports.values() for port in pair] + [broker]
    assert len(set(numbers)) == 7
    assert all_free(ports)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports["alpha"][1]))
        taken.listen()
        assert not all_free(ports)
