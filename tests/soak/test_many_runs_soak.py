"""Thousands of runs that are finished and not fetched, on one host with few open files."""

import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from booksan.host.status import read_status
from tests.support.data import sample
from tests.support.gateway_host import CONFIG, Running, running

Record = Callable[[str, object], None]

RUNS = 2000
#: Runs at once.
THREADS = 8
#: The hard limit of open files of every process of the host.
FILES = 1024
SMALL = sample(9, books=6, reviews=6)
MANY = replace(CONFIG, max_connections=256)


def open_files(host: Running) -> int:
    """Of the worker that has most of them open."""
    status = read_status(host.root)
    assert status is not None
    pids = [worker.pid for worker in status.workers if worker.pid and worker.name != "gateway.0"]
    return max(psutil.Process(pid).num_fds() for pid in pids)


def run(host: Running, number: int) -> None:
    with host.client(f"run-{number}") as client:
        assert client.run(SMALL)["state"] == "done"


def many_runs(root: Path) -> dict[str, int]:
    """Open files before and after a restart; in a process of its own, whose limit stays low."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    with running(root, MANY) as host, ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda number: run(host, number), range(RUNS)))
        before = open_files(host)
    with running(root, MANY) as host:
        for number in (0, RUNS // 2, RUNS - 1):
            with host.client(f"run-{number}") as client:
                assert client.answers() == SMALL.answers
        run(host, RUNS)
        with host.client(f"run-{RUNS}") as client:
            assert client.http.delete(client.path).json() == {"how": "cancelled"}
        after = open_files(host)
    return {"open files of the worker with most of them": before, "the same after a restart": after}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_thousands_of_finished_runs_wait_to_be_fetched(
    tmp_path: Path, record_property: Record
) -> None:
    # Only root may raise a hard limit again, and not everywhere.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = pool.submit(many_runs, tmp_path).result()
    for name, count in found.items():
        record_property(name, count)
