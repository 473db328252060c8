"""How a data set is declared: its sources, stages, queries and parameters.

A data set is plain data plus a few functions; nothing here knows of queues or processes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from booksan.spec import Spec
from booksan.stages.kinds import ColumnType, FieldKind
from booksan_common.params import Param as Param
from booksan_common.params import ParamValue, parse_params

if TYPE_CHECKING:
    import polars as pl

    from booksan.stages.operator import Operator

Params = Mapping[str, ParamValue]


class Keyed(NamedTuple):
    """Rows for a stage, and the column that decides to which shard each of them goes."""

    frame: "pl.DataFrame"
    key: str | None = None
    #: All rows go to every shard of the stage instead.
    every: bool = False


#: Splits one parsed batch (its needed columns and `row`, the index in the batch) by stage.
Route = Callable[["pl.DataFrame", Params], Mapping[str, Keyed]]


@dataclass(frozen=True)
class Source:
    name: str
    needed: tuple[str, ...]
    route: Route
    #: Needed columns that must hold more than just text, or nothing.
    kinds: Mapping[str, FieldKind] = field(default_factory=dict)
    delimiter: bytes = b","
    #: A text that stands for an empty field, if there is one.
    lacking: str = ""
    #: Names in the header of some files that stand for two or more columns each.
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The public data set's name of the file, for help texts.
    file_name: str = ""


@dataclass(frozen=True)
class Stage:
    name: str
    #: Sources and stages that it reads.
    inputs: tuple[str, ...]
    operator: "Operator"
    #: False: one result per client, so the client's id is the key.
    keyed: bool = True
    #: Sources that must be complete here before the next source may begin.
    joins: tuple[str, ...] = ()
    #: The costly ones get as many workers as the user asks for.
    heavy: bool = False
    #: What it is keyed by, in a word: for people, who see it in the graph.
    key: str = ""


@dataclass(frozen=True)
class Query:
    name: str
    stage: str
    columns: Mapping[str, ColumnType]
    order: tuple[str, ...]
    #: What it answers, with `%(parameter)s` where a parameter's value belongs.
    about: str

    def describe(self, params: Params) -> str:
        return self.about % params

    @property
    def sorted_by(self) -> tuple[str, ...]:
        return (*self.order, *(name for name in self.columns if name not in self.order))


@dataclass(frozen=True)
class Dataset:
    name: str
    version: int
    #: In upload order.
    sources: tuple[Source, ...]
    #: The home, which all data sets have, is added when it is loaded.
    stages: tuple[Stage, ...]
    queries: tuple[Query, ...]
    params: tuple[Param, ...] = ()
    #: What it is about, in a line.
    about: str = ""

    @cached_property
    def source(self) -> Mapping[str, Source]:
        return {source.name: source for source in self.sources}

    @cached_property
    def stage(self) -> Mapping[str, Stage]:
        return {stage.name: stage for stage in self.stages}

    @cached_property
    def receivers(self) -> Mapping[str, tuple[Stage, ...]]:
        """Who reads a source or a stage's output."""
        names = [*self.source, *self.stage]
        return {
            name: tuple(stage for stage in self.stages if name in stage.inputs) for name in names
        }

    @property
    def defaults(self) -> dict[str, ParamValue]:
        return {param.name: param.default for param in self.params}

    def parse_params(self, settings: Sequence[str]) -> dict[str, ParamValue]:
        return parse_params(self.name, self.params, settings)

    def joiners(self, source: str) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if source in stage.joins)

    def senders(self, name: str, spec: Spec) -> tuple[str, ...]:
        """The streams that make up an input: one of the gateways, or one for each shard."""
        if name in self.source:
            return (f"gateway/{name}",)
        if self.stage[name].keyed:
            return tuple(f"{name}/{shard}" for shard in range(spec.shards[name]))
        return (f"{name}/{spec.shard_for_client(name)}",)

    def shards_of(self, name: str, spec: Spec) -> tuple[int, ...]:
        """The shards of a stage that work for this client."""
        if self.stage[name].keyed:
            return tuple(range(spec.shards[name]))
        return (spec.shard_for_client(name),)
