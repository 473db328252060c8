"""Files that are damaged: who is hit fails in words, the others go on, and the doctor knows."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from booksan.doctor import Level, check_data
from booksan.worker.failures import keep_letter
from tests.disk.damage import damage_files, damage_shard
from tests.disk.parts import HostPart
from tests.support.sets import sample_of

Note = Callable[[str, object], None]
MANY = int(os.environ.get("BOOKSAN_DAMAGES", "200"))


def damaged(root: Path) -> list[str]:
    return [one.found for one in check_data(root) if one.level is Level.FAIL]


@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, MANY), marks=[pytest.mark.soak])]
)
@pytest.mark.timeout(3600)
def test_damage_under_one_client_is_told_and_harms_no_other(
    seeds: range, record_property: Note
) -> None:
    samples = (sample_of("books", 3, rows=30), sample_of("books", 4, rows=30))
    found, ends = damage_files(*samples, seeds)
    for end, count in ends.items():
        record_property(f"runs with a damaged file: {end}", count)
    assert not found.bad, "\n".join(found.examples)


def test_a_shard_whose_database_is_damaged_says_which_and_what_to_do(tmp_path: Path) -> None:
    said = damage_shard(tmp_path)
    assert str(tmp_path / "shards" / "q1-0.db") in said
    assert "restore it, or delete it" in said
    assert len(damaged(tmp_path)) == 1


def test_the_doctor_finds_every_damaged_file_of_a_host(tmp_path: Path) -> None:
    for _ in HostPart().live(tmp_path):
        pass
    letter = keep_letter(tmp_path, "q1", 0, b"poison", "why")
    assert damaged(tmp_path) == []
    paths = [letter, *(tmp_path / name for name in ("host.json", "gateway.json", "secret"))]
    for path in paths:
        path.write_bytes(b"")
    found = damaged(tmp_path)
    assert len(found) == len(paths)
    for path in paths:
        assert any(str(path) in text for text in found)
