"""The log must not stop what it tells about."""

import subprocess
import sys

MANY = """
from booksan.events import write
for number in range(5000):
    write(f"event {number} " + "x" * 100)
"""


def test_a_reader_that_has_stopped_reading_holds_nobody_up() -> None:
    """As a pager does, a terminal after Ctrl-S, or a slow collector of logs."""
    with subprocess.Popen([sys.executable, "-c", MANY], stderr=subprocess.PIPE) as process:
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()
        assert process.stderr is not None
        lines = process.stderr.read().splitlines()
    assert 100 < len(lines) < 5000
    assert all(line.endswith(b"}") for line in lines), "none of them is cut"
