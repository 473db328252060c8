"""What a server says: of a data set, and of a run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from booksan_common.errors import UsageError
from booksan_common.names import answer_names, plain_name, plain_names
from booksan_common.params import Param, ParamValue, parse_params

# What a server says of a data set: its files, parameters and queries.


@dataclass(frozen=True)
class Source:
    name: str
    file_name: str
    needed: tuple[str, ...]
    delimiter: bytes
    #: Names in the header of some files that stand for two or more columns each.
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Query:
    name: str
    about: str
    #: Type of each column: TEXT, INTEGER, REAL, LIST, DECIMAL or DURATION.
    columns: Mapping[str, str]


@dataclass(frozen=True)
class DatasetInfo:
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
            sources=tuple(_source_info(each) for each in found["sources"]),
            params=tuple(_param(each) for each in found["params"]),
            queries=tuple(
                Query(str(each["name"]), str(each["about"]), dict(each["columns"]))
                for each in found["queries"]
            ),
            about=str(found.get("about", "")),
        )

    def check_files(self, given: Sequence[Path]) -> None:
        if len(given) != len(self.sources):
            wanted = ", ".join(
                f"{each.name} ({each.file_name})" if each.file_name else each.name
                for each in self.sources
            )
            raise UsageError(
                f"{self.name} takes {_files(len(self.sources))} in this order: {wanted}; "
                f"{len(given)} given: {', '.join(map(str, given))}"
            )

    def parse_params(self, settings: Sequence[str]) -> dict[str, ParamValue]:
        return parse_params(self.name, self.params, settings)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _source_info(found: Mapping[str, Any]) -> Source:
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


# What the server says of a run.


@dataclass(frozen=True)
class SourceStatus:
    batches: int = 0
    #: Known once the end came.
    of_batches: int | None = None
    rows: int = 0
    rejected: int = 0
    complete: bool = False
    #: The first batch numbers that the home lacks.
    missing: tuple[int, ...] = ()


@dataclass(frozen=True)
class AnswerStatus:
    rows: int
    complete: bool


@dataclass(frozen=True)
class StageStatus:
    """What all shards of a stage have taken so far."""

    shards: int
    batches: int
    of_batches: int | None
    rows: int
    bytes: int
    done: bool
    #: Sources and stages that it reads; empty of a server that does not tell.
    inputs: tuple[str, ...] = ()

    @property
    def fraction(self) -> float | None:
        """None while nobody can know how much it will be."""
        if self.done:
            return 1.0
        if self.of_batches is None:
            return None
        return min(1.0, self.batches / max(1, self.of_batches))


@dataclass(frozen=True)
class Join:
    """How many rows of a source a stage has joined to those of an earlier one."""

    stage: str
    source: str
    to: str
    rows: int
    matched: int


@dataclass(frozen=True)
class Stall:
    """Nothing of the run has moved for a while."""

    seconds: float
    #: What is waited for, in the server's terms: stage, shard, sender, missing numbers.
    where: tuple[Mapping[str, Any], ...]

    def words(self) -> str:
        places = "; ".join(
            f"{each['stage']}.{each['shard']} has {each['batches']} of {each['of_batches']} "
            f"batches of {each['sender']}, missing {each['missing']}"
            for each in self.where
        )
        return f"nothing has moved for {self.seconds:.0f} s: {places or 'no stage says why'}"


@dataclass(frozen=True)
class Lack:
    """What of a source some shard still waits for, though nothing has come for a while."""

    #: Inclusive ranges of batch numbers.
    ranges: tuple[tuple[int, int], ...] = ()
    end: bool = False


@dataclass(frozen=True)
class Status:
    id: str
    dataset: str
    params: Mapping[str, Any]
    version: str
    #: uploading, working, done or failed.
    state: str
    failed: str | None
    expires: int
    ticket: str
    permits: Mapping[str, str]
    sources: Mapping[str, SourceStatus]
    answers: Mapping[str, AnswerStatus]
    #: Only when they were asked for.
    stages: Mapping[str, StageStatus] = field(default_factory=dict)
    stalled: Stall | None = None
    #: By source; None of a server that does not tell, or was not asked.
    resend: Mapping[str, Lack] | None = None
    generation: int = 0
    joins: tuple[Join, ...] = ()

    @property
    def done(self) -> bool:
        return self.state == "done"

    @property
    def rejected(self) -> int:
        return sum(source.rejected for source in self.sources.values())

    def unmatched(self) -> list[str]:
        """In words, the sources of which rows were joined and none found its counterpart."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for join in self.joins:
            rows, matched = found.get((join.source, join.to), (0, 0))
            found[join.source, join.to] = (rows + join.rows, matched + join.matched)
        return [
            f"0 of {self.source(source).rows:,} {source} matched any of the {to}; do both files "
            "name them alike, and what do the parameters leave out?"
            for (source, to), (rows, matched) in found.items()
            if rows and not matched
        ]

    def source(self, name: str) -> SourceStatus:
        return self.sources.get(name, SourceStatus())

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Of its names, files get theirs: only plain ones are taken."""
        plain_names("a source", found["sources"])
        answer_names(found["answers"])
        return cls(
            id=str(found["id"]),
            dataset=str(found["dataset"]),
            params=dict(found["params"]),
            version=str(found["version"]),
            state=str(found["state"]),
            failed=found["failed"],
            expires=int(found["expires"]),
            ticket=str(found["ticket"]),
            permits=dict(found["permits"]),
            sources={name: _source(each) for name, each in found["sources"].items()},
            answers={
                name: AnswerStatus(int(each["rows"]), bool(each["complete"]))
                for name, each in found["answers"].items()
            },
            stages={name: _stage(each) for name, each in (found.get("stages") or {}).items()},
            stalled=_stall(found.get("stalled")),
            resend=_resend(found.get("resend")),
            generation=int(found.get("generation", 0)),
            joins=tuple(_join(each) for each in found.get("joins", ())),
        )


def _source(found: Mapping[str, Any]) -> SourceStatus:
    missing: Sequence[int] = found["missing"]
    return SourceStatus(
        batches=int(found["batches"]),
        of_batches=_number(found["of_batches"]),
        rows=int(found["rows"]),
        rejected=int(found["rejected"]),
        complete=bool(found["complete"]),
        missing=tuple(int(number) for number in missing),
    )


def _join(found: Mapping[str, Any]) -> Join:
    return Join(
        stage=str(found["stage"]),
        source=str(found["source"]),
        to=str(found["to"]),
        rows=int(found["rows"]),
        matched=int(found["matched"]),
    )


def _stage(found: Mapping[str, Any]) -> StageStatus:
    return StageStatus(
        shards=int(found["shards"]),
        batches=int(found["batches"]),
        of_batches=_number(found["of_batches"]),
        rows=int(found["rows"]),
        bytes=int(found["bytes"]),
        done=bool(found["done"]),
        inputs=tuple(map(str, found.get("inputs", ()))),
    )


def _stall(found: Mapping[str, Any] | None) -> Stall | None:
    return Stall(float(found["seconds"]), tuple(found["where"])) if found else None


def _resend(found: Mapping[str, Any] | None) -> dict[str, Lack] | None:
    if found is None:
        return None
    return {
        name: Lack(
            tuple((int(first), int(last)) for first, last in each["batches"]), bool(each["end"])
        )
        for name, each in found.items()
    }


def _number(found: Any) -> int | None:
    return None if found is None else int(found)
