"""Hosts that start on a full disk: a first start says so, a host that comes back waits for room."""

import subprocess

from booksan.gateway.config import read_address
from booksan.host.handle import supervisor_command
from tests.acceptance.disk import Disk
from tests.support.command import PATIENCE, Place, Words, wait_until
from tests.support.hosts import place_for_hosts, read_json, two_hosts

STAGES = "q1-filter,q3-join,results"


def test_a_first_start_without_room_says_where_and_what_to_do(place: Place, disk: Disk) -> None:
    data_dir = disk.path / "data"
    words: Words = ["host", "--stages", STAGES, "--data-dir", data_dir]
    filler = disk.fill()
    ended = place.run(words)
    assert ended.code == 6
    assert ended.message == (
        f"no space left where {data_dir} is; make room, then type the same command again"
    )
    filler.unlink()
    with place.started(words) as process:
        wait_until(lambda: read_json(data_dir / "host-status.json").get("state") == "running")
        process.terminate()
        assert place.ended(process).code == 0


def test_a_cluster_without_room_says_so_and_starts_nothing(place: Place, disk: Disk) -> None:
    disk.fill()
    words: Words = ["cluster", "up", two_hosts(place.root), "--any-ports"]
    with place_for_hosts(place.root):
        ended = place.run([*words, "--data-dir", disk.path / "c"])
    assert ended.code == 6
    assert str(disk.path / "c") in ended.message


def test_a_host_that_is_brought_back_on_a_full_disk_waits_for_room(
    place: Place, disk: Disk
) -> None:
    """As the leader starts it: its files are there, its directory has no byte to give."""
    data_dir = disk.path / "data"
    words: Words = ["host", "--stages", STAGES, "--data-dir", data_dir]
    with place.started(words) as process:
        wait_until(lambda: read_address(data_dir))
        process.terminate()
        place.ended(process)
    for name in ("gateway-address.json", "host-status.json"):
        (data_dir / name).unlink()
    filler = disk.fill()
    queues = f"spool:{place.state}/booksan/hosts/single/spool"
    env = place.environment({"BOOKSAN_QUEUES": queues})
    with subprocess.Popen(supervisor_command(data_dir), env=env, stderr=subprocess.PIPE) as process:
        # The supervisor, its fork server, three workers and a gateway, with nothing to write to.
        wait_until(lambda: len(place.processes()) == 6)
        filler.unlink()
        wait_until(lambda: read_address(data_dir))
        wait_until(lambda: read_json(data_dir / "host-status.json").get("state") == "running")
        assert read_json(data_dir / "host-status.json")["restarts"] == 0
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
