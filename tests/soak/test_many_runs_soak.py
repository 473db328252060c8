"""Thousands of runs that are finished and not fetched, on one host with few open files."""

import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from booksan.supervisor.status import read_status
from tests.integration.gateway_host import CONFIG, Running, running
from tests.simulation.data import sample

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


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_thousands_of_finished_runs_wait_to_be_fetched(
    tmp_path: Path, record_property: Record
) -> None:
    def run(number: int) -> None:
        with host.client(f"run-{number}") as client:
            assert client.run(SMALL)["state"] == "done"

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    try:
        with running(tmp_path, MANY) as host, ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(run, range(RUNS)))
            record_property("open files of the worker with most of them", open_files(host))
        with running(tmp_path, MANY) as host:
            for number in (0, RUNS // 2, RUNS - 1):
                with host.client(f"run-{number}") as client:
                    assert client.answers() == SMALL.answers
            run(RUNS)
            with host.client(f"run-{RUNS}") as client:
                assert client.http.delete(client.path).json() == {"how": "cancelled"}
            record_property("the same after a restart", open_files(host))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
