"""What is special about the spool: its files, its syncs, its leftovers, a full disk."""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from booksan.errors import NoSpace, TransportError
from booksan.transport import Depth, Outgoing, Spool, spool, spool_consumer

PROJECT = Path(__file__).parents[2]
MIB = 1 << 20

#: A producer that stops in the middle of its second message and says so.
HALF_WRITER = """
import os, signal, sys
from pathlib import Path
from booksan.transport import Outgoing, Spool

def write_half(descriptor, body):
    os.write(descriptor, body[: len(body) // 2])
    print("half", flush=True)
    signal.pause()

spool = Spool(Path(sys.argv[1]))
spool.publish([Outgoing("work", b"whole")])
sys.modules["booksan.transport.spool"].write_all = write_half
spool.publish([Outgoing("work", b"half written")])
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def half_writer(root: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HALF_WRITER, str(root)]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        yield process
        process.kill()


def temporaries(root: Path) -> list[Path]:
    return [path for path in (root / "tmp").glob("*/*") if path.name != "lock"]


def message_files(root: Path, queue: str = "work") -> list[Path]:
    return sorted((root / "queues" / queue / "messages").iterdir())


def failing(number: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def test_the_queues_can_be_seen_with_ls(root: Path) -> None:
    with Spool(root) as spool:
        spool.publish([Outgoing("work.0", b"hello"), Outgoing("work.0", b"")])
        spool.consume("work.0").close()
        seen = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    name = r"queues/work\.0/messages/[0-9]{20}-[0-9a-f]{16}-[0-9]{8}-"
    patterns = [r"queues/work\.0/lock", name + "5", name + "0", r"tmp/[0-9a-f]{16}/lock"]
    assert len(seen) == len(patterns)
    assert all(re.fullmatch(pattern, path) for pattern, path in zip(patterns, seen, strict=True))
    assert list((root / "tmp").iterdir()) == []
    assert (root / "queues/work.0/bell").is_fifo()


def test_names_follow_the_order_of_publishing_though_the_clock_goes_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Spool(root, sync=False) as first, Spool(root, sync=False) as second:
        first.publish([Outgoing("work", b"1")])
        monkeypatch.setattr(time, "time_ns", lambda: 1)
        second.publish([Outgoing("work", b"2")])
        first.publish([Outgoing("work", b"3"), Outgoing("work", b"4")])
    assert [path.read_bytes() for path in message_files(root)] == [b"1", b"2", b"3", b"4"]


def test_a_message_counts_only_when_file_and_directory_are_synced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def record(module: object, name: str, place: Callable[..., Path]) -> None:
        real = getattr(module, name)

        def recorded(*arguments: object) -> object:
            events.append(f"{name} {place(*arguments).relative_to(root).parts[0:2]}")
            return real(*arguments)

        monkeypatch.setattr(module, name, recorded)

    def path_of(descriptor: int) -> Path:
        return Path(f"/proc/self/fd/{descriptor}").readlink()

    spool = Spool(root)
    spool.publish([Outgoing("a", b""), Outgoing("b", b"")])
    record(os, "fdatasync", lambda fd: path_of(fd).parent.parent)
    record(os, "fsync", path_of)
    record(Path, "rename", lambda _, target: target)
    spool.publish([Outgoing("a", b"1"), Outgoing("b", b"2"), Outgoing("a", b"3")])
    spool.close()
    assert events[:3] == ["fdatasync ('tmp',)"] * 3
    assert sorted(events[3:6]) == ["rename ('queues', 'a')"] * 2 + ["rename ('queues', 'b')"]
    assert sorted(events[6:]) == ["fsync ('queues', 'a')", "fsync ('queues', 'b')"]


def test_a_new_queue_is_synced_in_all_directories_above_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink())
    )
    with Spool(root) as spool:
        spool.publish([Outgoing("work", b"")])
    queues = root / "queues"
    above = {root.parent, root, queues, queues / "work", queues / "work" / "messages"}
    assert above <= set(synced)


def test_without_sync_nothing_is_synced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    with Spool(root, sync=False) as spool:
        spool.publish([Outgoing("work", b"x")])
        assert spool.depth("work") == Depth(1, 1)


def test_the_half_written_message_of_a_dead_process_is_removed_and_never_delivered(
    root: Path, half_writer: subprocess.Popen[str]
) -> None:
    half_writer.send_signal(signal.SIGKILL)
    half_writer.wait()
    assert [path.read_bytes() for path in temporaries(root)] == [b"half w"]
    with Spool(root) as spool, spool.consume("work") as consumer:
        assert list((root / "tmp").iterdir()) == []
        assert [delivery.body for delivery in consumer.receive(10, MIB, 0)] == [b"whole"]
        assert spool.depth("work") == Depth(1, 5)


@pytest.mark.usefixtures("half_writer")
def test_the_temporaries_of_a_living_process_stay(root: Path) -> None:
    with Spool(root) as spool:
        spool.publish([Outgoing("work", b"more")])
    assert [path.read_bytes() for path in temporaries(root)] == [b"half w"]


def test_spools_that_open_and_close_at_once_leave_each_other_alone(root: Path) -> None:
    def come_and_go(_: int) -> None:
        for _ in range(40):
            with Spool(root, sync=False) as spool:
                spool.publish([Outgoing("work", b"x")] * 2)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(come_and_go, range(6)))
    assert len(message_files(root)) == 6 * 40 * 2
    assert list((root / "tmp").iterdir()) == []


@pytest.mark.parametrize("moment", ["before its lock file is there", "before the lock is held"])
def test_a_directory_that_is_taken_for_a_leftover_is_replaced(
    root: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    spool_of_the_test = Spool(root)
    sweeps = iter([True])
    module, name = (spool, "take_lock") if "file" in moment else (fcntl, "flock")
    real = getattr(module, name)

    def sweep_first(*arguments: object) -> object:
        if next(sweeps, False):
            spool.remove_leftovers(root / "tmp")
        return real(*arguments)

    monkeypatch.setattr(module, name, sweep_first)
    spool_of_the_test.publish([Outgoing("work", b"x")])
    (own,) = (root / "tmp").iterdir()
    spool.remove_leftovers(root / "tmp")
    assert own.is_dir()
    spool_of_the_test.close()
    assert list((root / "tmp").iterdir()) == []


def test_who_only_reads_writes_nothing(root: Path) -> None:
    Spool(root).close()
    with Spool(root) as spool:
        assert spool.depth("work") == Depth(0, 0)
        assert sorted(root.rglob("*")) == [root / "queues", root / "tmp"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "fdatasync", "fsync"])
def test_a_full_disk_is_named_and_publishing_works_again_later(
    root: Path, call: str, number: int
) -> None:
    with Spool(root) as spool:
        spool.publish([Outgoing("work", b"before")])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, call, failing(number))
            with pytest.raises(NoSpace, match=f"{root}.*Free some space"):
                spool.publish([Outgoing("work", b"lost")])
        assert temporaries(root) == []
        spool.publish([Outgoing("work", b"after")])
        bodies = {path.read_bytes() for path in message_files(root)}
    # When only the last sync failed the message is there, but the caller was told it may not be.
    assert bodies - {b"lost"} == {b"before", b"after"}
    assert (b"lost" in bodies) == (call == "fsync")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def publish_until_full(spool: Spool) -> int:
    for confirmed in range(100):
        try:
            spool.publish([Outgoing("work", bytes(100_000))])
        except NoSpace:
            return confirmed
    pytest.fail("the disk is never full")


def test_a_disk_that_is_really_full_loses_nothing(small_disk: Path) -> None:
    with Spool(small_disk) as spool:
        confirmed = publish_until_full(spool)
        assert confirmed >= 5
        assert temporaries(small_disk) == []
        assert spool.depth("work") == Depth(confirmed, confirmed * 100_000)
        with spool.consume("work") as consumer:
            consumer.acknowledge(consumer.receive(2, MIB, 0))
        spool.publish([Outgoing("work", bytes(100_000))])
        assert spool.depth("work").messages == confirmed - 1


def test_other_errors_of_the_disk_name_the_file(root: Path) -> None:
    with Spool(root) as spool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fdatasync", failing(errno.EIO))
            with pytest.raises(TransportError, match=f"cannot sync {root}/tmp/.*: Input/output"):
                spool.publish([Outgoing("work", b"x")])
        assert temporaries(root) == []
        assert spool.depth("work") == Depth(0, 0)


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_them_all(root: Path) -> None:
    real = os.write
    with Spool(root) as spool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", lambda descriptor, body: real(descriptor, body[:3]))
            spool.publish([Outgoing("work", b"all of it")])
        assert [path.read_bytes() for path in message_files(root)] == [b"all of it"]


def test_a_queue_whose_directory_was_removed_is_made_anew(root: Path) -> None:
    with Spool(root) as spool:
        spool.publish([Outgoing("work", b"x")])
        for path in message_files(root):
            path.unlink()
        (root / "queues/work/messages").rmdir()
        with pytest.raises(TransportError, match="cannot publish"):
            spool.publish([Outgoing("work", b"y")])
        spool.publish([Outgoing("work", b"y")])
        assert spool.depth("work") == Depth(1, 1)


def test_a_message_that_vanished_is_an_error_and_the_others_still_come(root: Path) -> None:
    with Spool(root) as spool, spool.consume("work") as consumer:
        spool.publish([Outgoing("work", b"first"), Outgoing("work", b"second")])
        spool.publish([Outgoing("work", b"third")])
        assert [delivery.body for delivery in consumer.receive(1, MIB, 0)] == [b"first"]
        gone = message_files(root)[1]
        gone.unlink()
        with pytest.raises(TransportError, match=f"{gone}: No such file"):
            consumer.receive(10, MIB, 0)
        assert [delivery.body for delivery in consumer.receive(10, MIB, 0)] == [b"third"]


@pytest.mark.parametrize("left", [b"", b"who", b"whole and more"])
def test_a_damaged_message_does_not_stop_its_queue(
    root: Path, caplog: pytest.LogCaptureFixture, left: bytes
) -> None:
    """Its receiver knows by the checksum that it is none, and puts it away."""
    with Spool(root) as spool, spool.consume("work") as consumer:
        spool.publish([Outgoing("work", b"whole"), Outgoing("work", b"next")])
        message_files(root)[0].write_bytes(left)
        deliveries = consumer.receive(10, MIB, 0)
        assert [delivery.body for delivery in deliveries] == [left, b"next"]
        assert f"damaged: it has {len(left)} bytes, its name says 5" in caplog.text
        consumer.acknowledge(deliveries)
        assert message_files(root) == []


def test_an_acknowledged_message_that_vanished_is_an_error(root: Path) -> None:
    with Spool(root) as spool, spool.consume("work") as consumer:
        spool.publish([Outgoing("work", b"x")])
        deliveries = consumer.receive(1, MIB, 0)
        message_files(root)[0].unlink()
        with pytest.raises(TransportError, match="cannot acknowledge"):
            consumer.acknowledge(deliveries)


def test_a_consumer_forgets_what_it_acknowledged(root: Path) -> None:
    with Spool(root) as spool, spool.consume("work") as consumer:
        spool.publish([Outgoing("work", b"x")])
        deliveries = consumer.receive(1, MIB, 0)
        consumer.acknowledge(deliveries)
        with pytest.raises(TransportError, match="does not hold it"):
            consumer.acknowledge(deliveries)


def test_files_that_are_no_messages_are_left_alone(root: Path) -> None:
    with Spool(root) as spool, spool.consume("work") as consumer:
        (root / "queues/work/messages/.DS_Store").write_bytes(b"?")
        assert spool.depth("work") == Depth(0, 0)
        assert consumer.receive(1, MIB, 0) == []


def count_listings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    listings: list[int] = []
    real = spool_consumer.list_messages

    def listing(messages: Path) -> list[str]:
        names = real(messages)
        listings.append(len(names))
        return names

    monkeypatch.setattr(spool_consumer, "list_messages", listing)
    return listings


def test_a_long_queue_costs_one_listing_and_not_one_for_each_message(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_consumer, "RESCAN_SECONDS", 3600.0)
    listings = count_listings(monkeypatch)
    with Spool(root, sync=False) as spool, spool.consume("work") as consumer:
        spool.publish([Outgoing("work", b"x")] * 20_000)
        for _ in range(20_000):
            deliveries = consumer.receive(1, MIB, 0)
            assert len(deliveries) == 1
            consumer.acknowledge(deliveries)
        assert consumer.receive(1, MIB, 0) == []
    assert sum(listings) <= 20_000


def test_a_long_queue_costs_few_listings_while_producers_ring(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_consumer, "RESCAN_SECONDS", 3600.0)
    listings = count_listings(monkeypatch)
    with Spool(root, sync=False) as spool, spool.consume("work") as consumer:
        spool.publish([Outgoing("work", b"x")] * 500)
        for _ in range(2000):
            spool.publish([Outgoing("work", b"x")])
            consumer.acknowledge(consumer.receive(1, MIB, 0))
        assert spool.depth("work").messages == 500
    assert len(listings) <= 6


def test_a_message_whose_bell_was_lost_is_found_by_the_rescan(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "ring", lambda _: None)
    monkeypatch.setattr(spool_consumer, "RESCAN_SECONDS", 0.05)
    with Spool(root) as silent, silent.consume("work") as consumer:
        assert consumer.receive(1, MIB, 0) == []
        thread = threading.Thread(target=silent.publish, args=([Outgoing("work", b"x")],))
        thread.start()
        assert [delivery.body for delivery in consumer.receive(1, MIB, 30)] == [b"x"]
        thread.join()


def test_a_bell_that_nobody_silences_stops_neither_producers_nor_a_wake(root: Path) -> None:
    with Spool(root) as spool, spool.consume("work") as consumer:
        for _ in range(70_000):
            spool_consumer.ring(root / "queues/work/bell")
        spool.publish([Outgoing("work", b"x")])
        consumer.wake()
        assert consumer.receive(1, MIB, 30) == []
        assert [delivery.body for delivery in consumer.receive(1, MIB, 30)] == [b"x"]


def test_a_wake_just_before_the_bell_is_silenced_is_not_lost(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = spool_consumer.Bell.silence
    wakes = iter([True])

    def wake_first(bell: spool_consumer.Bell) -> bool:
        if next(wakes, False):
            consumer.wake()
        return real(bell)

    monkeypatch.setattr(spool_consumer.Bell, "silence", wake_first)
    with Spool(root) as spool, spool.consume("work") as consumer:
        spool.publish([Outgoing("work", b"x")])
        assert consumer.receive(1, MIB, 30) == []
        assert [delivery.body for delivery in consumer.receive(1, MIB, 30)] == [b"x"]


def test_no_descriptor_is_inherited_by_other_programs(root: Path) -> None:
    with Spool(root) as spool, spool.consume("work"):
        spool.publish([Outgoing("work", b"x")])
        own = [
            int(link.name)
            for link in Path("/proc/self/fd").iterdir()
            if link.exists() and str(root) in str(link.readlink())
        ]
        assert len(own) == 3
        assert not any(os.get_inheritable(descriptor) for descriptor in own)


def test_closing_leaves_no_descriptor_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with Spool(root) as spool, spool.consume("work") as consumer:
        spool.publish([Outgoing("work", b"x")] * 100)
        consumer.acknowledge(consumer.receive(100, MIB, 0))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
