"""Whole hosts on a network that breaks in every shape: nobody is killed for it, and runs end right.

Each is in a namespace of its own. Packets are dropped in silence, so connections hang and do not
close. Two leaders of different terms are allowed meanwhile; one leads when all is mended.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from booksan.broker import Broker
from tests.support.broker import broker
from tests.support.command import PATIENCE, wait_until
from tests.support.inputs import Inputs
from tests.support.wide import SHAPES, Wide, mend, wide_cluster

__all__ = ["broker"]

#: Seconds that a break lasts: longer than a host may be silent before it is missed.
BREAK = 3.5


@pytest.fixture
def wide(tmp_path: Path, broker: Broker) -> Iterator[Wide]:
    with wide_cluster(tmp_path / "hosts", broker) as found:
        yield found


class Clients:
    """One after the other, so that there is always one at work."""

    def __init__(self, wide: Wide, root: Path) -> None:
        self._wide = wide
        self._root = root
        root.mkdir()
        self._inputs = Inputs.make("books", root, 3, rows=400, dirty=True)
        self._now: subprocess.Popen[bytes] | None = None
        #: Those that are done.
        self.count = 0

    def keep_going(self) -> None:
        if self._now is not None and self._now.poll() is None:
            return
        self.finish()
        words = self._inputs.words("submit", self._out, "--batch-bytes", "4000", "--json")
        self._now = self._wide.submit([str(word) for word in words])

    def finish(self) -> None:
        """It has got what the oracle says."""
        if self._now is not None:
            out, err = self._now.communicate(timeout=PATIENCE)
            assert self._now.returncode == 0, err.decode()
            assert b"Traceback" not in out + err
            self._inputs.check(self._out)
            self.count += 1
            self._now = None

    @property
    def _out(self) -> Path:
        return self._root / f"out-{self.count}"


def test_runs_outlive_a_network_that_breaks_in_every_shape(
    wide: Wide, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    before = wide.pids()
    assert None not in before.values()
    clients = Clients(wide, tmp_path / "clients")
    for shape in SHAPES:
        clients.keep_going()
        shape(wide)
        # The break lasts so long; there is nothing to wait for.
        time.sleep(BREAK)
        mend(wide)
    mended = time.monotonic()
    clients.finish()
    record_property("seconds from the last break to the answers", round(time.monotonic() - mended))
    wait_until(lambda: set(wide.leaders().values()) == {"gamma"})
    assert wide.pids() == before, "a host was killed because it was not heard"
    wait_until(lambda: not any(wide.place.root.glob("*/clients/*/*.db")))
    record_property("runs on a network that breaks", clients.count)
