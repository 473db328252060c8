"""Rows given as texts, and what an oracle makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.real_rows import REAL_ROWS

Answers = Callable[[Path, Path, Mapping[str, object]], dict[str, bytes]]


class Asked:
    """Runs one query over rows given as texts; the header of the answer is left out."""

    def __init__(self, folder: Path, headers: tuple[str, str], answers: Answers) -> None:
        self._paths = folder / "first.csv", folder / "second.csv"
        self._headers = headers
        self._answers = answers

    def __call__(
        self, query: str, first: Sequence[str] = (), second: Sequence[str] = (), **params: object
    ) -> str:
        for path, header, rows in zip(self._paths, self._headers, (first, second), strict=True):
            written(path, header, rows)
        named = {name.replace("_", ".", 1): value for name, value in params.items()}
        content = self._answers(*self._paths, named)[query].decode()
        return content.split("\n", 1)[1]


def written(path: Path, header: str, rows: Sequence[str]) -> Path:
    """The file of these lines."""
    path.write_bytes("".join(f"{line}\n" for line in (header, *rows)).encode())
    return path


def real_sample(name: str) -> Path:
    """Where real rows of a public data set are, if they are."""
    return REAL_ROWS / name
