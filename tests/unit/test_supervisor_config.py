"""host.json: what is accepted, and what the error says."""

import json
from pathlib import Path

import pytest

from booksan.errors import UsageError
from booksan.host.config import HostConfig, RestartPolicy, WorkerSpec, read_config, write_config

ONE = {"stage": "q3-join", "shard": 0}


def test_a_plain_file_gives_the_workers_and_the_defaults(tmp_path: Path) -> None:
    two = {"workers": [ONE, {"stage": "results", "shard": 1}]}
    (tmp_path / "host.json").write_text(json.dumps(two))
    config = read_config(tmp_path)
    assert [worker.name for worker in config.workers] == ["q3-join.0", "results.1"]
    assert config.entry == "booksan.worker.main:run"
    assert config.drain_timeout == 5.0
    assert config.restart == RestartPolicy()


def test_a_written_configuration_is_read_back(tmp_path: Path) -> None:
    config = HostConfig(
        workers=(WorkerSpec("q1-filter", 0), WorkerSpec("q3-join", 12)),
        entry="some.module:function",
        drain_timeout=1.5,
        restart=RestartPolicy(max_restarts=3, window=7.0),
    )
    write_config(tmp_path / "new" / "directory", config)
    assert read_config(tmp_path / "new" / "directory") == config


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], r"it must be an object, not \[\]"),
        ({}, "workers: must be a list with at least one worker; it is missing"),
        ({"workers": []}, r"workers: must be a list with at least one worker, not \[\]"),
        ({"workers": ["q3-join.0"]}, r"workers\[0\]: must be an object, not 'q3-join.0'"),
        ({"workers": [ONE, {"shard": 0}]}, r"workers\[1\].stage: must be .*; it is missing"),
        ({"workers": [{"stage": "../x", "shard": 0}]}, r"stage: must be a name .*, not '\.\./x'"),
        ({"workers": [{"stage": "a", "shard": -1}]}, "shard: must be a whole number .*, not -1"),
        ({"workers": [{"stage": "a", "shard": "0"}]}, "shard: must be a whole number .*, not '0'"),
        ({"workers": [{"stage": "a", "shard": True}]}, "shard: must be a whole .*, not True"),
        ({"workers": [{"stage": "a", "shard": 0, "entry": "m"}]}, r"workers\[0\].entry: must be"),
        ({"workers": [ONE, ONE]}, "workers: q3-join.0 is named twice"),
        ({"workers": [ONE], "entry": "m"}, "entry: must be like package.module:function, not 'm'"),
        ({"workers": [ONE], "drain_timeout": "5"}, "drain_timeout: must be a number from 0 on"),
        ({"workers": [ONE], "restart": 3}, "restart: must be an object, not 3"),
        ({"workers": [ONE], "restart": {"max": 3}}, "restart.max: there is no such .*first_delay"),
        ({"workers": [ONE], "restart": {"window": -1}}, "restart.window: must be a number"),
        (
            {"workers": [ONE], "election": {"name": "a"}},
            "election.id: is missing",
        ),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, found: object, message: str) -> None:
    (tmp_path / "host.json").write_text(json.dumps(found))
    with pytest.raises(UsageError, match=message):
        read_config(tmp_path)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"host\.json cannot be read: No such file"):
        read_config(tmp_path)
    (tmp_path / "host.json").write_text("{")
    with pytest.raises(UsageError, match=r"host\.json is not JSON"):
        read_config(tmp_path)
    (tmp_path / "host.json").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"host\.json is not JSON"):
        read_config(tmp_path)
