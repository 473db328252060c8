"""Do the contestants give the same answers? Byte for byte, or here is where they part."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

#: A line number and its two contents, where neither side has a line.
MISSING: tuple[int, tuple[bytes | None, bytes | None]] = (1, (None, None))


@dataclass(frozen=True)
class Difference:
    """The first line in which a contestant's answer differs from the reference's."""

    contestant: str
    reference: str
    query: str
    line: int
    expected: str | None
    found: str | None

    def __str__(self) -> str:
        return (
            f"{self.query} of {self.contestant} differs from {self.reference} in line {self.line}:"
            f" expected {_shown(self.expected)}, found {_shown(self.found)}"
        )


def differences(
    queries: Iterable[str], contestant: str, out: Path, reference: str, truth: Path
) -> list[Difference]:
    found = (_difference(contestant, out, reference, truth, query) for query in queries)
    return [difference for difference in found if difference is not None]


def _difference(
    contestant: str, out: Path, reference: str, truth: Path, query: str
) -> Difference | None:
    expected, found = _lines(truth / f"{query}.csv"), _lines(out / f"{query}.csv")
    # Without a file there is no answer, not even one that equals another missing one.
    if expected == found != []:
        return None
    pairs = enumerate(zip_longest(expected, found), start=1)
    line, (left, right) = next((pair for pair in pairs if pair[1][0] != pair[1][1]), MISSING)
    return Difference(contestant, reference, query, line, _text(left), _text(right))


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n") if path.exists() else []


def _text(line: bytes | None) -> str | None:
    return None if line is None else line.decode("utf-8", errors="backslashreplace")


def _shown(line: str | None) -> str:
    return "nothing" if line is None else repr(line)
