"""A run that cannot finish keeps no other waiting, fails in time, and can always be cancelled."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.stuck_entries import FILES
from tests.support.data import sample
from tests.support.gateway_host import Running, running, wait_for

Record = Callable[[str, object], None]

#: Seconds without a sign of life after which a worker is killed in these tests: longer than one
#: takes to start on a busy machine.
HANG = 8.0
#: Seconds in which a client that cannot finish has failed: three hangs and the starts between them,
#: or eleven quick deaths, on a busy machine.
LIMIT = 100.0
DATA = sample(5)
OTHER = sample(6)
ENTRY = "tests.integration.stuck_entries:run"


def is_stuck(host: Running) -> bool:
    """Has the shard died of the client at least once?"""
    status = host.host.status()
    return status is not None and any(
        worker.restarts for worker in status.workers if worker.name.startswith("q2-decades")
    )


@pytest.mark.parametrize("how", ["hangs", "kills", "panics"])
def test_a_client_whose_output_is_never_done_fails_and_the_others_go_on(
    tmp_path: Path, how: str, record_property: Record
) -> None:
    with (
        running(tmp_path, entry=ENTRY, hang_timeout=HANG) as host,
        host.client("alone") as alone,
        host.client(f"{how}-always") as bad,
        host.client("good") as good,
    ):
        began = time.monotonic()
        assert alone.run(OTHER)["state"] == "done"
        quiet = time.monotonic() - began
        bad.create(DATA)
        for source in DATA.batches:
            bad.upload(DATA, source)
        stuck = time.monotonic()
        wait_for(lambda: is_stuck(host))
        began = time.monotonic()
        assert good.run(OTHER)["state"] == "done"
        beside = time.monotonic() - began
        assert good.answers() == OTHER.answers
        failed = bad.wait(lambda status: status["state"] == "failed")
        took = time.monotonic() - stuck
        assert "q2-decades" in failed["failed"]
        assert "died or hung again and again" in failed["failed"]
        assert took < LIMIT
        record_property(
            f"a client that {how} the worker has failed, s; another's run beside it, and alone, s",
            f"{took:.1f}; {beside:.1f}, {quiet:.1f}",
        )


def test_a_client_whose_output_is_never_done_can_be_cancelled(tmp_path: Path) -> None:
    with (
        running(tmp_path, entry=ENTRY, hang_timeout=HANG) as host,
        host.client("hangs-always") as bad,
        host.client("good") as good,
    ):
        bad.create(DATA)
        for source in DATA.batches:
            bad.upload(DATA, source)
        wait_for(lambda: is_stuck(host))
        answer = bad.http.delete(bad.path)
        assert (answer.status_code, answer.json()["how"]) == (200, "cancelled")
        wait_for(lambda: not (tmp_path / "clients" / bad.name).exists())
        assert good.run(OTHER)["state"] == "done"
        assert good.answers() == OTHER.answers


def test_finished_runs_that_nobody_fetches_use_up_no_open_files(tmp_path: Path) -> None:
    """Many more than there may be files open, also over a restart of all workers."""
    entry = "tests.integration.stuck_entries:run_with_few_files"
    small = sample(9, books=6, reviews=6)
    names = [f"run-{number}" for number in range(FILES // 2)]
    with running(tmp_path, entry=entry) as host:
        for name in names:
            with host.client(name) as client:
                assert client.run(small)["state"] == "done"
    with running(tmp_path, entry=entry) as host:
        for name in (names[0], names[-1]):
            with host.client(name) as client:
                assert client.answers() == small.answers
        with host.client("one-more") as client:
            assert client.run(small)["state"] == "done"
            assert client.http.delete(client.path).status_code == 200
