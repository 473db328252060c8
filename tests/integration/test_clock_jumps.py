"""A host whose clock is set a week ahead and back, with real processes."""

import time
from pathlib import Path

import pytest

from tests.support.data import sample
from tests.support.gateway_host import running

#: From Debian's package libfaketime: wall time as a file says, for a process and its children.
LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
DATA = sample(5)
#: Seconds between two ticks of the workers here.
TICK = 1


@pytest.mark.skipif(not LIBRARIES, reason="libfaketime is not installed")
@pytest.mark.parametrize("jump", ["+8d", "-8d"])
def test_a_clock_that_jumps_and_comes_back_changes_nothing(tmp_path: Path, jump: str) -> None:
    offset = tmp_path / "offset"
    offset.write_text("+0")
    env = {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "BOOKSAN_STALLED_AFTER": str(TICK),
    }
    root = tmp_path / "host"
    with (
        running(root, env=env) as host,
        host.client("finished") as finished,
        host.client("halfway") as halfway,
        host.client("late") as late,
    ):
        assert finished.run(DATA)["state"] == "done"
        halfway.create(DATA)
        halfway.upload(DATA, "books")
        offset.write_text(jump)
        # Several ticks of every worker, by which everything would have expired.
        time.sleep(5 * TICK)
        assert finished.answers() == DATA.answers
        halfway.upload(DATA, "reviews")
        assert halfway.wait(lambda status: status["state"] in ("done", "failed"))["state"] == "done"
        assert late.run(DATA)["state"] == "done"
        offset.write_text("+0")
        time.sleep(5 * TICK)
        for client in (finished, halfway, late):
            assert client.answers() == DATA.answers
