"""Whole hosts on a network that breaks in every shape: nobody is killed for it, and runs end right.

Each is in a namespace of its own. Packets are dropped in silence, so connections hang and do not
close. Two leaders of different terms are allowed meanwhile; one leads when all is mended.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from booksan.broker import Broker
from tests.support.broker import broker
from tests.support.command import PATIENCE, wait_until
from tests.support.inputs import Inputs
from tests.support.wide import SHAPES, Shape, Wide, mend, wide_cluster

Record = Callable[[str, object], None]
__all__ = ["broker"]

#: Seconds that a break lasts: long enough to be missed by all, and to be told from a pause.
BREAK = 5.0


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Wide]:
    with wide_cluster(tmp_path_factory.mktemp("wide"), broker) as found:
        yield found


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs.make("books", tmp_path_factory.mktemp("inputs"), 3, rows=400, dirty=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_outlives_a_network_that_breaks(
    wide: Wide,
    inputs: Inputs,
    tmp_path: Path,
    record_property: Record,
    shape: Shape,
) -> None:
    before = wide.pids()
    assert None not in before.values()
    words = inputs.words("submit", tmp_path / "out", "--batch-bytes", "4000", "--json")
    with wide.submit([str(word) for word in words]) as client:
        wait_until(lambda: any(wide.place.root.glob("*/clients/*/*.db")) or client.poll())
        shape(wide)
        with_break = time.monotonic()
        # The break lasts so long; there is nothing to wait for.
        time.sleep(BREAK)
        mend(wide)
        out, err = client.communicate(timeout=PATIENCE)
        assert client.returncode == 0, err.decode()
    record_property(f"seconds after {shape.__name__}", round(time.monotonic() - with_break, 1))
    assert b"Traceback" not in out + err
    inputs.check(tmp_path / "out")
    wait_until(lambda: set(wide.leaders().values()) == {"gamma"})
    assert wide.pids() == before, "a host was killed because it was not heard"
    wait_until(lambda: not any(wide.place.root.glob("*/clients/*/*.db")))
