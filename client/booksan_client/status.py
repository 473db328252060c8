"""What the server says of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from booksan_client.names import answer_names, plain_names


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

    @property
    def done(self) -> bool:
        return self.state == "done"

    @property
    def rejected(self) -> int:
        return sum(source.rejected for source in self.sources.values())

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


def _stage(found: Mapping[str, Any]) -> StageStatus:
    return StageStatus(
        shards=int(found["shards"]),
        batches=int(found["batches"]),
        of_batches=_number(found["of_batches"]),
        rows=int(found["rows"]),
        bytes=int(found["bytes"]),
        done=bool(found["done"]),
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
