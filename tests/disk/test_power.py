"""Power cuts: what was confirmed is there, the rest is done again, and no answer changes.

`make soak` makes more of them; BOOKSAN_CUTS tells how many of each kind.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.disk.cuts import Kept
from tests.disk.parts import PARTS, Part
from tests.disk.power import Counts, Life, caught, cut_part, cut_world, places, record_part
from tests.disk.power import record_world as recorded
from tests.support.sets import sample_of

Note = Callable[[str, object], None]
DATASETS = ("books", "flights", "aoe2", "steam")
MANY = int(os.environ.get("BOOKSAN_CUTS", "400"))
ROWS = 40


#: Of a part: names that last by a later sync of the same directory, before anybody builds on them.
COVERED = {
    "host": {
        "sync_directory < load_secret",
        "sync_directory < replacing < write_private < write_files",
    }
}
#: The test itself syncs here.
NOT_OURS = {"sync_directory < prepared"}
#: By `PRAGMA synchronous = FULL`.
FULL = "SQLite: db-wal"


def well(found: Counts) -> None:
    assert not found.bad, "\n".join(found.examples)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_what_was_confirmed_outlives_a_power_cut(
    tmp_path: Path, part: Part, record_property: Note
) -> None:
    """And every sync is needed: without any one of them some cut loses it."""
    life = record_part(tmp_path, part)
    found = cut_part(life, part, 0, 30)
    record_property(f"power cuts under the {part.name}", found.cuts)
    well(found)
    cut = partial(_cut, life, part)
    seeds = {place: caught(cut, place, 20) for place in sorted(needed(life, part))}
    record_property(f"syncs left out in turn under the {part.name}", len(seeds))
    assert [place for place, seed in seeds.items() if seed is None] == []


def _cut(life: Life, part: Part, seed: int, kept: Kept) -> Counts:
    return cut_part(life, part, seed, 20, kept)


def needed(life: Life, part: Part) -> set[str]:
    """All places that sync; of SQLite's own only the one that we have asked for."""
    found = set(places(life)) - NOT_OURS - COVERED.get(part.name, set())
    return {place for place in found if not place.startswith("SQLite")} | found & {FULL}


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_run_goes_on_after_a_power_cut_with_the_same_answers(
    tmp_path: Path, dataset: str, record_property: Note
) -> None:
    sample = sample_of(dataset, 3, rows=ROWS, dirty=True)
    found = cut_world(recorded(tmp_path, sample, 1), sample, 1, 3)
    record_property(f"power cuts under {dataset}", found.cuts)
    well(found)


def test_the_directory_of_a_client_lasts_before_anything_in_it_is_confirmed(
    tmp_path: Path,
) -> None:
    sample = sample_of("books", 3, rows=20)
    life = recorded(tmp_path, sample, 1)
    place = "sync_directory < make_directory < begin"
    assert place in places(life)
    assert caught(lambda seed, kept: cut_world(life, sample, seed, 3, kept), place, 6) is not None


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_many_power_cuts_under_parts(tmp_path: Path, part: Part, record_property: Note) -> None:
    found = cut_part(record_part(tmp_path, part), part, 2, MANY)
    record_property(f"power cuts under the {part.name}", found.cuts)
    well(found)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dataset", DATASETS)
def test_many_power_cuts_under_runs(tmp_path: Path, dataset: str, record_property: Note) -> None:
    """Over several lives, since each has its own order."""
    found = Counts()
    for seed in range(4):
        sample = sample_of(dataset, seed, rows=ROWS, dirty=True)
        life = recorded(tmp_path / str(seed), sample, seed)
        found.add(cut_world(life, sample, seed, MANY // 4))
    record_property(f"power cuts under {dataset}", found.cuts)
    well(found)
