"""Hosts on one machine know each other by small files."""

import fcntl
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
from msgspec import structs

from booksan.cluster.host import HostRequest, host_setup, join
from booksan.cluster.prepare import HostSetup, host_environment
from booksan.cluster.registry import read_members
from booksan.doctor import Level, check_secrets
from booksan.errors import UsageError
from booksan.gateway.config import GatewayConfig, read_gateway_config
from booksan.host.config import ElectionConfig, Revival, read_config
from booksan.host.handle import supervisor_command
from booksan.host.status import HOST_LOCK, HostState, HostStatus, supervisor_pid, write_status
from booksan.membership.liveness import is_at_work
from booksan.membership.peers import Changes
from booksan.topology.parse import load_topology
from tests.integration.test_host_command import give_client
from tests.support.command import wait_until
from tests.support.hosts import two_hosts

JOINS, REST = "q3-join,results", "q1-filter,q2-decades"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("QUEUES", "TOKEN", "SECRET", "SECRET_FILE", "SECRET_ALSO"):
        monkeypatch.delenv(f"BOOKSAN_{name}", raising=False)
    return tmp_path / "state/booksan"


def joined(
    stages: str | None,
    config: str = "single",
    *,
    name: str | None = None,
    listen: str | None = None,
    gateway: bool = True,
    secret: Path | None = None,
    revival: Revival = Revival.PROCESS,
) -> HostSetup:
    setup = host_setup(
        HostRequest(config, name, stages, None, gateway, listen, secret, None, revival)
    )
    join(setup)
    return setup


def election(setup: HostSetup) -> ElectionConfig:
    found = read_config(setup.data_dir).election
    assert found is not None
    return found


def gateway(setup: HostSetup) -> GatewayConfig:
    return read_gateway_config(setup.data_dir)


def running(setup: HostSetup) -> int:
    """Hold its lock as a supervisor does; the descriptor to close."""
    lock = os.open(setup.data_dir / HOST_LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock


def stopped(setup: HostSetup) -> None:
    write_status(setup.data_dir, HostStatus(1, HostState.STOPPED, 0, ()))


def test_one_that_comes_later_is_known_to_the_first_and_the_first_to_it() -> None:
    first = joined(JOINS)
    assert read_config(first.data_dir).election is None, "alone it elects nobody"
    second = joined(REST)
    assert first.listen is not None
    assert second.listen is not None
    one, other = election(first), election(second)
    assert one.id != other.id
    assert one.peers[second.name].id == other.id
    assert one.peers[second.name].address == other.listen
    assert other.peers[first.name].address == one.listen
    assert one.revival == {second.name: str(second.data_dir)}
    assert other.revival == {first.name: str(first.data_dir)}
    assert gateway(first).homes == {0: ""}
    assert gateway(second).homes == {0: f"http://{first.listen}"}
    assert gateway(first).gateways == {second.name: f"http://{second.listen}"}
    # All shards of the topology count, whoever runs them.
    assert gateway(second).shards == load_topology("single").shards


def test_a_host_keeps_its_number_and_its_ports() -> None:
    first, second = joined(JOINS), joined(REST)
    before = [structs.replace(election(one), peers={}, revival={}) for one in (first, second)]
    again = joined(JOINS)
    assert again.listen == first.listen
    assert structs.replace(election(again), peers={}, revival={}) == before[0]
    anywhere = joined("q4-top", listen="127.0.0.1:0")
    assert anywhere.listen is not None
    assert anywhere.listen.port
    assert joined("q4-top", listen="127.0.0.1:0").listen == anywhere.listen


def test_shards_of_a_running_host_are_refused_by_its_name() -> None:
    first = joined(JOINS)
    lock = running(first)
    try:
        with pytest.raises(UsageError, match=rf"q3-join\.0 is run by .* {first.name}, process"):
            joined("q3-join,q4-top")
    finally:
        os.close(lock)
    assert list(read_members(first.data_dir.parent)) == [first.name]


def test_shards_that_clients_need_on_another_disk_are_refused_until_they_are_gone() -> None:
    first = joined(JOINS)
    give_client(first.data_dir)
    with pytest.raises(UsageError, match=r"unfinished clients \(c1\) need its disk"):
        joined("q3-join,q4-top")
    for path in first.data_dir.glob("clients/*/*"):
        path.unlink()
    second = joined("q3-join,q4-top")
    assert list(read_members(first.data_dir.parent)) == [second.name]
    # Nobody may bring the first one back now.
    assert (first.data_dir / "stopped").exists()
    assert read_config(second.data_dir).election is None


def test_a_host_that_was_stopped_is_missed_by_nobody_but_keeps_its_home() -> None:
    first, second = joined(JOINS), joined(REST)
    stopped(first)
    third = joined("q4-top")
    assert set(election(third).peers) == {second.name}
    assert set(election(second).peers) == {third.name}
    assert gateway(third).homes == {0: f"http://{first.listen}"}
    again = joined(JOINS)
    assert set(election(again).peers) == {second.name, third.name}
    assert set(election(second).peers) == {first.name, third.name}


def test_a_host_without_a_gateway_is_asked_for_nothing() -> None:
    first, second = joined(JOINS), joined(REST, gateway=False)
    assert second.listen is None
    assert gateway(first).gateways == {}
    assert set(election(first).peers) == {second.name}


def test_hosts_of_the_file_and_picked_ones_go_together(tmp_path: Path) -> None:
    config = str(two_hosts(tmp_path))
    alpha = joined(None, config, name="alpha")
    assert set(election(alpha).peers) == {"beta"}, "as the file says, until somebody comes"
    assert election(alpha).revival == {}
    picked = joined("q2-decades,q4-top,q5-percentile", config)
    assert set(election(alpha).peers) == {picked.name}
    assert election(alpha).revival == {picked.name: str(picked.data_dir)}
    assert gateway(picked).homes == {0: "http://127.0.0.1:7301"}


def test_a_host_that_revives_nobody_stays_so_when_others_come() -> None:
    first = joined(JOINS, revival=Revival.NONE)
    joined(REST)
    assert election(first).by is Revival.NONE
    assert election(first).revival == {}


def test_across_machines_the_file_has_to_tell(tmp_path: Path) -> None:
    config = two_hosts(tmp_path)
    config.write_text(
        config.read_text()
        .replace("127.0.0.1:74", "10.0.0.1:74")
        .replace('datasets = ["books"]', 'datasets = ["books"]\n[queues]\nkind = "spool"')
    )
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef")
    with pytest.raises(UsageError, match=r"add a table \[hosts.NAME\]"):
        joined("q3-join", str(config), secret=secret)
    alpha = joined(None, str(config), name="alpha", secret=secret)
    assert alpha.members is None
    assert set(election(alpha).peers) == {"beta"}


def test_a_damaged_file_is_told_with_what_to_do() -> None:
    first = joined(JOINS)
    path = first.data_dir.parent / "members" / f"{first.name}.json"
    path.write_text("{")
    with pytest.raises(UsageError, match="remove it, and start its host again"):
        joined(REST)


def test_a_supervisor_notices_what_was_written_anew_and_nothing_else() -> None:
    first = joined(JOINS)
    changes = Changes(first.data_dir)
    now = time.monotonic()
    assert changes.look(now) is None
    assert not changes.gateway_changed()
    second = joined(REST)
    assert changes.look(now + 0.1) is None, "not at every turn of the loop"
    found = changes.look(now + 5)
    assert found is not None
    assert found.election is not None
    assert set(found.election.peers) == {second.name}
    assert changes.gateway_changed()
    assert not changes.gateway_changed()
    joined(REST)
    assert changes.look(now + 10) is None, "one that comes again changes nothing"
    (first.data_dir / "host.json").write_text("{")
    assert changes.look(now + 15) is None


def test_the_doctor_names_hosts_that_cannot_hear_each_other() -> None:
    first, second = joined(JOINS), joined(REST)
    members = read_members(first.data_dir.parent)
    assert [one.level for one in check_secrets(members)] == [Level.OK]
    old = (second.data_dir / "secret").read_bytes()
    (second.data_dir / "secret").write_bytes(b"quite another secret")
    told = [f"{one.what} {one.found}" for one in check_secrets(members)]
    assert len(told) == 2
    assert any(f"host {first.name} does not hear {second.name}" in one for one in told)
    # In the middle of a change all is well.
    (first.data_dir / "secret-also").write_bytes(b"quite another secret")
    (second.data_dir / "secret-also").write_bytes(old)
    assert [one.level for one in check_secrets(members)] == [Level.OK]


def test_a_host_that_cannot_meet_the_others_yet_works_on_and_tries_again() -> None:
    first = joined("q4-top", gateway=False)
    port = read_members(first.data_dir.parent)[first.name].plan.address.port
    log = first.data_dir / "supervisor.log"
    with socket.socket(type=socket.SOCK_DGRAM) as stranger, log.open("wb") as output:
        stranger.bind(("127.0.0.1", port))
        with subprocess.Popen(
            supervisor_command(first.data_dir),
            stdin=subprocess.DEVNULL,
            stderr=output,
            env=host_environment(os.environ, first.queues),
        ) as process:
            try:
                wait_until(lambda: supervisor_pid(first.data_dir) == process.pid)
                joined("q1-filter", gateway=False)
                wait_until(lambda: "cannot meet the other hosts" in log.read_text())
                assert is_at_work(first.data_dir, 30)
                stranger.close()
                wait_until(lambda: "knows q1-filter now" in log.read_text())
                process.terminate()
                assert process.wait(60) == 0
            finally:
                process.kill()
