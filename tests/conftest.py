"""Settings for all tests."""

import os
import signal

import pytest

from tests.support.real_rows import NO_REAL_ROWS

# As in every process of booksan: read by polars when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# A job in the background of a script begins with Ctrl-C ignored, and so does all that it starts.
# Tests that press Ctrl-C at a process mean one that was started at a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: Kinds of tests that start processes of their own, and take minutes together.
SLOW = {"acceptance", "disk", "integration"}
#: Those of them that a change is most likely to break: runs, some under kills, and small clusters.
QUICK = {
    "test_chaos.py",
    "test_local_run.py",
    "test_rabbitmq.py",
    "test_submit.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` leaves out what is slow, `make check` does not."""
    for item in items:
        if item.path.parent.name in SLOW and item.path.name not in QUICK:
            item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tells how many cases the tests tried that hold many in one."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
    skipped = [str(report.longrepr) for report in terminalreporter.getreports("skipped")]
    lacking = sum(NO_REAL_ROWS in reason for reason in skipped)
    if lacking:
        terminalreporter.write_line(
            f"{lacking} tests were skipped for the lack of real rows; BOOKSAN_REAL_ROWS names them"
        )
