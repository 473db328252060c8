"""Rounds of power cuts, and of disks that refuse a call."""

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.disk.disk import mounted, why_no_disk
from tests.disk.faults import Failing
from tests.disk.parts import PARTS
from tests.disk.power import Counts, Life, cut_part, cut_world, record_part, record_world
from tests.soak.parts import Part
from tests.support.sets import SETTINGS, sample_of

SETS = sorted(SETTINGS)
#: Of one round: cuts under each part and under a whole run, and calls that fail.
PART_CUTS, RUN_CUTS, CALLS = 50, 10, 10
ROWS = 30


class Power(Part):
    name = "power"
    title = "Power cuts and failing disks"
    about = (
        "A file system that forgets what was not synced, in part and in another order, and tears "
        "the last write (`tests/disk`). It is cut at any moment under each part that keeps "
        "anything, and under whole runs of all data sets, which go on on what is left; and single "
        "calls fail with EIO or ENOSPC. What was confirmed must be there, and the answers the same."
    )

    @property
    def lacks(self) -> str | None:
        return why_no_disk()

    @cached_property
    def lives(self) -> dict[str, Life]:
        return {part.name: record_part(self._place(part.name), part) for part in PARTS}

    def run(self, number: int) -> dict[str, Any]:
        dataset = SETS[number % len(SETS)]
        faults: Counter[str] = Counter()
        found = Counts()
        for part in PARTS:
            counts = cut_part(self.lives[part.name], part, number, PART_CUTS)
            faults[f"power cut under the {part.name}"] += counts.cuts
            found.add(counts)
        sample = sample_of(dataset, number, rows=ROWS, dirty=True)
        place = self._place(f"run-{number}")
        counts = cut_world(record_world(place, sample, number), sample, number, RUN_CUTS)
        faults[f"power cut under a run of {dataset}"] += counts.cuts
        found.add(counts)
        counts = self._fail_calls(dataset, number)
        faults[f"call that fails under a run of {dataset}"] += counts.cuts
        found.add(counts)
        return {
            "runs": found.cuts,
            "faults": dict(faults),
            "outcomes": {name: getattr(found, name) for name in ("lost", "twice", "wrong", "hung")},
            "findings": [f"round {number}: {text}" for text in found.examples],
        }

    def _fail_calls(self, dataset: str, number: int) -> Counts:
        found = Counts()
        with mounted(self._place(f"calls-{number}") / "disk") as disk:
            failing = Failing(disk, sample_of(dataset, number, rows=ROWS))
            for count, fault in enumerate(failing.faults(number, CALLS)):
                failing.meet(found, count, number, fault)
        return found

    def _place(self, name: str) -> Path:
        place = self.root / name
        place.mkdir()
        return place
