from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.acceptance.disk import Disk, small_disk
from tests.support.command import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A directory of its own; whatever a failed test left running in it is ended."""
    place = Place(tmp_path)
    yield place
    for process in place.processes():
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as found:
        yield found
