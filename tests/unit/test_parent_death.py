"""Each way of tying a worker to its supervisor, on its own."""

import subprocess
import sys

import pytest

#: Forks a child that ties itself, says so, and would stay for ever; then waits for its own end.
PARENT = """
import os, signal, sys
from booksan.supervisor.child import DeathSignal, DeathPipe
parent_death = {kind}()
if os.fork() == 0:
    parent_death.watch_parent()
    os.close(0)
    print("tied", flush=True)
    while True:
        signal.pause()
sys.stdin.read()
"""

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a death signal")


@pytest.mark.parametrize("kind", [pytest.param("DeathSignal", marks=LINUX), "DeathPipe"])
def test_a_tied_child_dies_with_its_killed_parent(kind: str) -> None:
    command = [sys.executable, "-c", PARENT.format(kind=kind)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"tied\n"
        parent.kill()
        # The child holds the other end too: the pipe ends only when both are dead.
        output, _ = parent.communicate(timeout=30)
    assert output == b""


@LINUX
def test_a_child_whose_parent_died_before_the_tie_ends_at_once() -> None:
    script = """
import os, sys
from booksan.supervisor.child import DeathSignal
parent_death = DeathSignal()
parent_death._supervisor = -1
parent_death.watch_parent()
print("still here")
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30)
    assert found.returncode == 1
    assert found.stdout == b""
