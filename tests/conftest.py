"""Settings for all tests."""

import os

import pytest

# As in every process of booksan: read by polars when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tells how many cases the tests tried that hold many in one."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
