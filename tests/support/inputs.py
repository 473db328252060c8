"""Two files of a data set, what is asked of them, and what its oracle says."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from booksan.datasets import dataset_named
from booksan.generate import generator_named
from tests.support.command import Words, settings
from tests.support.sets import SETTINGS, oracle_answers, oracle_of


@dataclass(frozen=True)
class Inputs:
    dataset: str
    paths: tuple[Path, Path]
    params: Mapping[str, object]

    @classmethod
    def make(
        cls, dataset: str, root: Path, seed: int, *, rows: int, dirty: bool = False
    ) -> "Inputs":
        """Generated, with thresholds that something of a few rows passes."""
        made = generator_named(dataset).generate(root, rows=rows, seed=seed, dirty=dirty)
        return cls(dataset, made.paths, SETTINGS[dataset])

    @cached_property
    def answers(self) -> dict[str, bytes]:
        return oracle_answers(self.dataset, self.paths, self.params)

    @cached_property
    def rejected(self) -> list[tuple[str, int]]:
        """The sources and numbers of the rows that cannot be read."""
        sources = dataset_named(self.dataset).source
        return [
            (source, row)
            for source, path in zip(sources, self.paths, strict=True)
            for row in oracle_of(self.dataset).rejected(path, source)
        ]

    def words(self, verb: str, out: Path, *more: str | Path) -> Words:
        """The command that asks for the answers."""
        return [verb, self.dataset, *self.paths, "--out", out, *settings(self.params), *more]

    def found(self, out: Path) -> dict[str, bytes]:
        return {name: (out / f"{name}.csv").read_bytes() for name in self.answers}

    def check(self, out: Path) -> None:
        """The files hold what the oracle says, to the last byte, the list of rejected rows too."""
        found = self.found(out)
        for name, content in self.answers.items():
            assert found[name] == content, name
        assert rejected_rows(out) == self.rejected


def check_answers(
    out: Path, books: Path, reviews: Path, params: Mapping[str, object]
) -> dict[str, bytes]:
    """What the oracle says of books, once the files are known to hold it."""
    inputs = Inputs("books", (books, reviews), params)
    inputs.check(out)
    return inputs.answers


def rejected_rows(out: Path) -> list[tuple[str, int]]:
    """The sources and numbers in rejected.csv; each row has a reason."""
    path = out / "rejected.csv"
    if not path.exists():
        return []
    header, *lines = path.read_text("utf-8").splitlines()
    assert header == "source,row,reason"
    parts = [line.split(",", 2) for line in lines]
    assert all(reason for _, _, reason in parts)
    return [(source, int(row)) for source, row, _ in parts]
