"""What the oracles of all data sets share: parameters, the form of answers, the command line."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from tests.oracle.reader import Row

Cells = Sequence[object]
Defaults = Mapping[str, str | int | float]
Answers = Callable[[Path, Path, Mapping[str, object]], dict[str, bytes]]

NO_PARAMS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True)
class Params:
    """The thresholds of all queries as typed values."""

    defaults: Defaults
    given: Mapping[str, object]

    def __post_init__(self) -> None:
        unknown = set(self.given) - set(self.defaults)
        if unknown:
            raise ValueError(f"unknown parameters: {', '.join(sorted(unknown))}")

    def text(self, name: str) -> str:
        return str(self._value(name))

    def whole(self, name: str) -> int:
        return int(str(self._value(name)))

    def real(self, name: str) -> float:
        return float(str(self._value(name)))

    def exact(self, name: str) -> Fraction:
        """The decimal that a float is written as: 0.3 is 3/10."""
        return Fraction(repr(self.real(name)))

    def _value(self, name: str) -> object:
        return self.given.get(name, self.defaults[name])


def rejected_of(read: Iterable[tuple[int, Row | None]]) -> list[int]:
    """The numbers of the rows that cannot be read."""
    return [row_number for row_number, row in read if row is None]


def year_in(text: str) -> int | None:
    """The first four digits in a row."""
    found = re.search("[0-9]{4}", text)
    return None if found is None else int(found[0])


def rounded(exact: Fraction) -> float:
    """The nearest float; beyond the floats it is infinite."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def json_list(texts: list[str]) -> str:
    """A list as it is written, and as it is sorted."""
    return json.dumps(texts, ensure_ascii=False)


def csv_file(header: Sequence[str], cells: Iterable[Cells]) -> bytes:
    """The bytes of a result file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(cells)
    return text.getvalue().encode("utf-8")


def command(
    name: str, sources: Iterable[str], answers: Answers, arguments: Sequence[str] | None
) -> None:
    """Write q1.csv and the others into a directory."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.oracle.{name}")
    first, second = sources
    parser.add_argument("first", type=Path, metavar=first.upper())
    parser.add_argument("second", type=Path, metavar=second.upper())
    parser.add_argument("outdir", type=Path, metavar="OUTDIR")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="given")
    options = parser.parse_args(arguments)
    params = dict(text.split("=", 1) for text in options.given)
    options.outdir.mkdir(parents=True, exist_ok=True)
    for query, content in answers(options.first, options.second, params).items():
        (options.outdir / f"{query}.csv").write_bytes(content)
