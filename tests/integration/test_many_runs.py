"""Runs that come and go leave nothing in a process: neither memory nor open files."""

from collections.abc import Callable
from pathlib import Path

from tests.soak.leaks import SLACK, grown, growth, run_many
from tests.support.cluster import running_cluster

#: Runs until every process has loaded what it needs, and in all.
FIRST, COUNT = 12, 32


def test_nothing_grows_from_run_to_run(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with running_cluster(tmp_path) as cluster:
        before, after = run_many(cluster, FIRST, COUNT)
    assert grown(before, after) == []
    for what in SLACK:
        record_property(f"{what} grown over {COUNT - FIRST} runs, %", growth(before, after, what))


def test_a_process_that_grows_is_found() -> None:
    before = {"a": {"bytes": 100 << 20, "files": 50}, "b": {"bytes": 100 << 20, "files": 50}}
    after = {"a": {"bytes": 112 << 20, "files": 53}, "b": {"bytes": 104 << 20, "files": 58}}
    words = f"a has grown from {100 << 20:,} to {112 << 20:,} bytes"
    assert grown(before, after) == [words, "b has grown from 50 to 58 files"]
