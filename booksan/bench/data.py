"""The files that all contestants read: generated once, kept where the user says."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from booksan.generate.registry import generator_named

#: Bytes read at a time when the files are brought into the page cache.
BLOCK = 1 << 20


@dataclass(frozen=True)
class Files:
    paths: tuple[Path, ...]
    #: How many each has, by the name of its source.
    rows: Mapping[str, int]

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


def generated_files(directory: Path, dataset: str, rows: Mapping[str, int], *, seed: int) -> Files:
    """Generate the files, or find the ones that an earlier run left in the directory."""
    numbers = "-".join(f"{source}-{number}" for source, number in rows.items())
    home = directory / f"{numbers}-seed-{seed}"
    if not home.exists():
        _generate(home, dataset, *rows.values(), seed=seed)
    return Files(tuple(home / name for name in generator_named(dataset).files), rows)


def _generate(home: Path, dataset: str, first_rows: int, rows: int, *, seed: int) -> None:
    """Renamed into place when complete, so that an interrupted run leaves nothing half-done."""
    unfinished = home.with_name(f"{home.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    generator_named(dataset).generate(unfinished, rows=rows, first_rows=first_rows, seed=seed)
    unfinished.rename(home)


def warm_page_cache(files: Files) -> None:
    """Read all files once, so that the first contestant does not pay for the disk."""
    for path in files.paths:
        with path.open("rb") as file:
            while file.read(BLOCK):
                pass
