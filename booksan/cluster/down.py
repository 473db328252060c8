"""`booksan cluster down`: nothing of the cluster survives; its data does unless it is wiped."""

import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from booksan.broker.leftovers import end_leftovers
from booksan.cluster import broker
from booksan.cluster.places import locked
from booksan.cluster.processes import marked, send, wait_gone
from booksan.cluster.record import HostRecord, read_record, write_record
from booksan.errors import BooksanError
from booksan.supervisor.locks import GENERATION_TIMEOUT, workers_alive
from booksan.supervisor.revive import STOPPED_FILE, revival_under_way

#: Seconds from SIGTERM to SIGKILL: more than a supervisor gives its workers.
DRAIN_SECONDS = 10.0
#: Seconds that a revival may take to have killed the old tree and started the new one.
REVIVAL_SECONDS = 2 * GENERATION_TIMEOUT


def stop_hosts(hosts: Iterable[HostRecord]) -> None:
    """All at once drain; what is left after a while is killed, workers with their supervisor."""
    hosts = list(hosts)
    for host in hosts:
        _forbid_revival(Path(host.data_dir))
    for host in hosts:
        _wait_for_revival(Path(host.data_dir))
    alive = [process for host in hosts if (process := host.supervisor())]
    for process in alive:
        send(process, signal.SIGTERM)
        # A stopped one hears nothing else.
        send(process, signal.SIGCONT)
    late = wait_gone(alive, DRAIN_SECONDS)
    for process in late:
        send(process, signal.SIGKILL)
    stuck = wait_gone(late, GENERATION_TIMEOUT)
    if stuck:
        pids = ", ".join(str(process.pid) for process in stuck)
        raise BooksanError(f"the supervisors {pids} were killed and have not ended; look at them")
    for host in hosts:
        _wait_for_workers(Path(host.data_dir))
        host.process = None


def _forbid_revival(data_dir: Path) -> None:
    """A leader that has not heard yet that all are stopped must not start one again."""
    if data_dir.is_dir():
        (data_dir / STOPPED_FILE).touch()


def _wait_for_revival(data_dir: Path) -> None:
    """One that began before it was forbidden may be about to start a supervisor."""
    deadline = time.monotonic() + REVIVAL_SECONDS
    while revival_under_way(data_dir) and time.monotonic() < deadline:
        time.sleep(0.02)


def _wait_for_workers(data_dir: Path) -> None:
    deadline = time.monotonic() + GENERATION_TIMEOUT
    while data_dir.is_dir() and workers_alive(data_dir):
        if time.monotonic() > deadline:
            raise BooksanError(f"workers in {data_dir} have not ended, though they were killed")
        time.sleep(0.02)


def down(directory: Path, *, wipe: bool) -> bool:
    """False if there is no cluster."""
    if not directory.is_dir():
        return False
    with locked(directory):
        record = read_record(directory)
        if record is not None:
            stop_hosts(record.hosts.values())
            if record.broker is not None:
                broker.stop_broker(record.broker)
            write_record(directory, record)
        strays = _end_strays(directory)
        if record is None and not strays:
            return False
        if wipe:
            shutil.rmtree(directory)
    return True


def _end_strays(directory: Path) -> bool:
    """What an `up` started that was killed before it could write it down."""
    strays = marked(directory)
    for process in strays:
        send(process, signal.SIGTERM)
    for process in wait_gone(strays, DRAIN_SECONDS):
        send(process, signal.SIGKILL)
    wait_gone(strays, GENERATION_TIMEOUT)
    end_leftovers(directory / "broker")
    return bool(strays)
