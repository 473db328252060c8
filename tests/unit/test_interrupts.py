"""Ctrl-C is heeded at a terminal, and ignored where the process was started to ignore it."""

import signal
import subprocess
import sys

import pytest

#: As a shell starts a job in the background of a script.
IGNORING = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]

#: Both commands, stopped where they begin their own work.
PROGRAM = """
import signal, sys
from {package} import __main__, cli
cli.main = lambda: print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
__main__.main()
"""

FLAG = """
import os, signal
from booksan_common.commands import stop_flag
stopped = stop_flag()
signal.raise_signal(signal.SIGINT)
print(stopped())
signal.raise_signal(signal.SIGTERM)
print(stopped())
"""


def printed(program: str, before: list[str]) -> list[str]:
    command = [*before, sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def test_tests_start_their_processes_as_at_a_terminal() -> None:
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


@pytest.mark.parametrize("package", ["booksan", "booksan_client"])
def test_a_command_that_was_started_to_ignore_ctrl_c_goes_on_to_ignore_it(package: str) -> None:
    assert printed(PROGRAM.format(package=package), []) == ["False"]
    assert printed(PROGRAM.format(package=package), IGNORING) == ["True"]


def test_sigterm_stops_a_command_that_ignores_ctrl_c() -> None:
    assert printed(FLAG, []) == ["True", "True"]
    assert printed(FLAG, IGNORING) == ["False", "True"]
