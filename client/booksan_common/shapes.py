"""What travels in JSON between clients and servers: each shape is declared here, and only here.

A server makes these and encodes them, a client decodes them, and the OpenAPI document is derived
from them. A field that a client does not know is of a newer server, and is passed over. A field
with a default always comes, but of an older server; one that may be UNSET comes when it is asked
for.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import UNSET, Meta, Struct, UnsetType, field

from booksan_common.errors import UsageError
from booksan_common.names import CLIENT_ID, answer_names, plain_name, plain_names
from booksan_common.params import Param, ParamValue, parse_params

#: Batches of a source.
MAX_NUMBER = 10**9
#: How often a run can be begun anew.
MAX_GENERATION = 1_000_000

Count = Annotated[int, Meta(ge=0)]
Batch = Annotated[
    int, Meta(ge=0, le=MAX_NUMBER, description=f"a whole number from 0 to {MAX_NUMBER}")
]

# What a newer server says in these, a client takes as it is; the document says what there is now.
ClientId = Annotated[str, Meta(extra_json_schema={"pattern": f"^{CLIENT_ID.pattern}$"})]
Kind = Annotated[
    str,
    Meta(extra_json_schema={"enum": ["TEXT", "INTEGER", "REAL", "LIST", "DECIMAL", "DURATION"]}),
]
State = Annotated[str, Meta(extra_json_schema={"enum": ["uploading", "working", "done", "failed"]})]
How = Annotated[str, Meta(description="done, cancelled, expired or idle")]


# A data set: its files, parameters and queries.


class Source(Struct, frozen=True):
    name: str
    file_name: str
    needed: tuple[str, ...]
    separator: str = field(name="delimiter")
    #: Names in the header of some files that stand for two or more columns each.
    merged: Mapping[str, tuple[str, ...]] = {}

    @property
    def delimiter(self) -> bytes:
        return self.separator.encode()


class Query(Struct, frozen=True):
    name: str
    about: Annotated[str, Meta(description="`%(name)s` stands where a parameter's value belongs")]
    columns: Mapping[str, Kind]
    order: tuple[str, ...] = ()


class Dataset(Struct, frozen=True, kw_only=True):
    name: str
    version: Count
    about: Annotated[str, Meta(description="what it is about, in a line")] = ""
    sources: Annotated[tuple[Source, ...], Meta(description="in upload order")]
    params: tuple[Param, ...]
    queries: tuple[Query, ...]

    def checked(self) -> Self:
        """Of its names, files get theirs: only plain ones are taken."""
        plain_name("a data set", self.name)
        plain_names("a source", (each.name for each in self.sources))
        plain_names("a parameter", (each.name for each in self.params))
        answer_names(each.name for each in self.queries)
        return self

    def check_files(self, given: Sequence[Path]) -> None:
        if len(given) != len(self.sources):
            wanted = ", ".join(
                f"{each.name} ({each.file_name})" if each.file_name else each.name
                for each in self.sources
            )
            files = "1 file" if len(self.sources) == 1 else f"{len(self.sources)} files"
            raise UsageError(
                f"{self.name} takes {files} in this order: {wanted}; "
                f"{len(given)} given: {', '.join(map(str, given))}"
            )

    def parse_params(self, settings: Sequence[str]) -> dict[str, ParamValue]:
        return parse_params(self.name, self.params, settings)


class Datasets(Struct, frozen=True):
    datasets: tuple[Dataset, ...]


# What a client asks for when it begins, and what it sends.


class Creation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    id: ClientId
    dataset: str
    params: Mapping[str, Annotated[ParamValue, Meta(description="a number or text")]] = {}
    columns: Annotated[
        Mapping[
            str,
            Annotated[
                tuple[str, ...] | str,
                Meta(description="a list of names, or the header line as text"),
            ],
        ],
        Meta(description="of every source: the names in its header, or the header line"),
    ]
    generation: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_GENERATION,
            description="one more than the last, to begin a run anew that was lost; from 0 to "
            f"{MAX_GENERATION}",
        ),
    ] = 0


class Receipt(Struct, frozen=True):
    """What a batch turned out to hold."""

    rows: Count
    rejected: Count


class End(Struct, frozen=True, forbid_unknown_fields=True):
    batches: Batch


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    pass


# The status of a run.


class SourceStatus(Struct, frozen=True):
    batches: Count = 0
    of_batches: Annotated[Count | None, Meta(description="known once the end came")] = None
    rows: Count = 0
    rejected: Count = 0
    complete: bool = False
    missing: Annotated[
        tuple[Count, ...], Meta(description="the first batch numbers that the home lacks")
    ] = ()


class AnswerStatus(Struct, frozen=True):
    rows: Count
    complete: bool


class Join(Struct, frozen=True):
    """How many rows of a source a stage has joined to those of an earlier one."""

    stage: str
    source: str
    to: str
    rows: Count
    matched: Count


class StageStatus(Struct, frozen=True):
    """What all shards of a stage have taken so far."""

    shards: Count
    batches: Count
    of_batches: Count | None
    rows: Count
    bytes: Count
    done: bool
    inputs: Annotated[tuple[str, ...], Meta(description="sources and stages that it reads")] = ()

    @property
    def fraction(self) -> float | None:
        """None while nobody can know how much it will be."""
        if self.done:
            return 1.0
        if self.of_batches is None:
            return None
        return min(1.0, self.batches / max(1, self.of_batches))


class Stream(Struct, frozen=True):
    """What a shard of a stage waits for."""

    stage: str
    shard: Count
    sender: str
    batches: Count
    of_batches: Count | None
    missing: tuple[Count, ...]


class Stall(Struct, frozen=True):
    """Nothing of the run has moved for a while."""

    seconds: Count
    where: tuple[Stream, ...]

    def words(self) -> str:
        places = "; ".join(
            f"{each.stage}.{each.shard} has {each.batches} of {each.of_batches} "
            f"batches of {each.sender}, missing {list(each.missing)}"
            for each in self.where
        )
        return f"nothing has moved for {self.seconds} s: {places or 'no stage says why'}"


class Lack(Struct, frozen=True):
    """What of a source some shard still waits for, though nothing has come for a while."""

    ranges: Annotated[
        tuple[tuple[Count, Count], ...], Meta(description="of batch numbers, inclusive")
    ] = field(name="batches", default=())
    end: bool = False


class Status(Struct, frozen=True, kw_only=True):
    id: ClientId
    dataset: str
    dataset_version: Count = 0
    generation: Count = 0
    params: Mapping[str, ParamValue]
    state: State
    failed: str | None
    expires: Count
    ticket: str
    permits: Mapping[str, str]
    sources: Mapping[str, SourceStatus]
    answers: Mapping[str, AnswerStatus]
    joins: tuple[Join, ...] = ()
    version: Annotated[
        str,
        Meta(description="changes when anything but `stages`, `stalled` and `resend` does"),
    ]
    stages: Mapping[str, StageStatus] | UnsetType = UNSET
    stalled: Stall | UnsetType | None = UNSET
    resend: Mapping[str, Lack] | UnsetType = UNSET
    missing_hosts: tuple[str, ...] | UnsetType = UNSET

    @property
    def done(self) -> bool:
        return self.state == "done"

    @property
    def rejected(self) -> int:
        return sum(source.rejected for source in self.sources.values())

    @property
    def stall(self) -> Stall | None:
        return self.stalled if isinstance(self.stalled, Stall) else None

    @property
    def stage(self) -> Mapping[str, StageStatus]:
        return {} if self.stages is UNSET else self.stages

    @property
    def lacks(self) -> Mapping[str, Lack] | None:
        """By source; None of a server that does not tell, or was not asked."""
        return None if self.resend is UNSET else self.resend

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

    def checked(self) -> Self:
        """Of its names, files get theirs: only plain ones are taken."""
        plain_names("a source", self.sources)
        answer_names(self.answers)
        return self


# Answers, rejected rows, and the end.


class Answer(Struct, frozen=True, kw_only=True):
    """Some rows of an answer."""

    query: str
    about: str
    complete: bool
    total: Count
    offset: Count = 0
    columns: Mapping[str, Kind]
    rows: Sequence[Mapping[str, Any]]


class RejectedRow(Struct, frozen=True):
    source: str
    row: Count
    reason: str


class Rejected(Struct, frozen=True):
    total: Count
    offset: Count
    rows: tuple[RejectedRow, ...]


class Gone(Struct, frozen=True):
    how: How


# What a service tells of itself.


class Health(Struct, frozen=True):
    status: str
    host: str
    version: str
    #: Homes of clients that cannot be reached.
    away: tuple[str, ...] | UnsetType = UNSET


class Client(Struct, frozen=True):
    id: ClientId
    dataset: str
    state: State
    expires: Count
    host: str


class Clients(Struct, frozen=True):
    clients: tuple[Client, ...]
    missing: Annotated[tuple[str, ...], Meta(description="hosts that did not answer")] = ()


class Fault(Struct, frozen=True):
    code: str
    message: str
    how: How | UnsetType = UNSET


class Error(Struct, frozen=True):
    error: Fault
