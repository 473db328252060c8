"""What a server says of a data set: its files, parameters and queries."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from booksan_client.errors import UsageError
from booksan_client.names import answer_names, plain_name, plain_names

ParamValue = int | float | str


@dataclass(frozen=True)
class Source:
    name: str
    file_name: str
    needed: tuple[str, ...]
    delimiter: bytes
    #: Names in the header of some files that stand for two or more columns each.
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Param:
    name: str
    default: ParamValue
    help: str
    low: float = -math.inf
    high: float = math.inf

    def parse(self, text: str) -> ParamValue:
        """The value in a command line's `--set name=text`, of the default's type."""
        if isinstance(self.default, str):
            if not text.isprintable():
                raise UsageError(f"{self.name} must be printable text, not {text!r}")
            return text
        try:
            value = int(text) if isinstance(self.default, int) else float(text)
        except ValueError:
            kind = "a whole number" if isinstance(self.default, int) else "a number"
            raise UsageError(f"{self.name} must be {kind}, not {text!r}") from None
        if not self.low <= value <= self.high:
            raise UsageError(
                f"{self.name} must be between {self.low:g} and {self.high:g}, not {text}"
            )
        return value


@dataclass(frozen=True)
class Query:
    name: str
    about: str
    #: Type of each column: TEXT, INTEGER, REAL, LIST, DECIMAL or DURATION.
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Dataset:
    name: str
    version: int
    #: In upload order.
    sources: tuple[Source, ...]
    params: tuple[Param, ...]
    queries: tuple[Query, ...]
    #: What it is about, in a line.
    about: str = ""

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Of its names, files get theirs: only plain ones are taken."""
        plain_names("a source", (each["name"] for each in found["sources"]))
        plain_names("a parameter", (each["name"] for each in found["params"]))
        answer_names(each["name"] for each in found["queries"])
        return cls(
            name=plain_name("a data set", found["name"]),
            version=int(found["version"]),
            sources=tuple(_source(each) for each in found["sources"]),
            params=tuple(_param(each) for each in found["params"]),
            queries=tuple(
                Query(str(each["name"]), str(each["about"]), dict(each["columns"]))
                for each in found["queries"]
            ),
            about=str(found.get("about", "")),
        )

    def check_files(self, count: int) -> None:
        if count != len(self.sources):
            names = " ".join(f"{source.name.upper()}_CSV" for source in self.sources)
            raise UsageError(
                f"{self.name} takes {len(self.sources)} files, {names}; {count} were given"
            )

    def parse_params(self, settings: Sequence[str]) -> dict[str, ParamValue]:
        """All parameters, with `name=value` settings on top of the defaults."""
        known = {param.name: param for param in self.params}
        values = {param.name: param.default for param in self.params}
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals:
                raise UsageError(f"--set takes name=value, not {setting!r}")
            if name not in known:
                raise UsageError(
                    f"{self.name} has no parameter {name!r}; it has: {', '.join(sorted(known))}"
                )
            values[name] = known[name].parse(text)
        return values


def _source(found: Mapping[str, Any]) -> Source:
    return Source(
        name=str(found["name"]),
        file_name=str(found["file_name"]),
        needed=tuple(map(str, found["needed"])),
        delimiter=str(found["delimiter"]).encode(),
        merged={name: tuple(map(str, parts)) for name, parts in found.get("merged", {}).items()},
    )


def _param(found: Mapping[str, Any]) -> Param:
    low, high = found["low"], found["high"]
    return Param(
        name=str(found["name"]),
        default=found["default"],
        help=str(found["help"]),
        low=-math.inf if low is None else float(low),
        high=math.inf if high is None else float(high),
    )
