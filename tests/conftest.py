"""Settings for all tests."""

import os
import signal

import pytest

# As in every process of booksan: read by polars when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# A job in the background of a script begins with Ctrl-C ignored, and so does all that it starts.
# Tests that press Ctrl-C at a process mean one that was started at a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tells how many cases the tests tried that hold many in one."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
