"""How a data set is declared: its sources, stages, queries and parameters.

A data set is plain data plus a few functions; nothing here knows of queues or processes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from booksan.errors import UsageError
from booksan.spec import HOME, ParamValue, Spec
from booksan.stages.kinds import ColumnType, FieldKind

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
class Param:
    name: str
    default: ParamValue
    help: str
    low: float = -math.inf
    high: float = math.inf

    def parse(self, text: str) -> ParamValue:
        """The value in a command line's `--set name=text`."""
        if isinstance(self.default, str):
            if not text.isprintable():
                raise UsageError(f"{self.name} must be printable text, not {text!r}")
            return text
        try:
            value = int(text) if isinstance(self.default, int) else _finite(text)
        except ValueError:
            kind = "a whole number" if isinstance(self.default, int) else "a number"
            raise UsageError(f"{self.name} must be {kind}, not {text!r}") from None
        if not self.low <= value <= self.high:
            raise UsageError(
                f"{self.name} must be between {self.low:g} and {self.high:g}, not {text}"
            )
        return value


def _finite(text: str) -> float:
    """JSON, in which parameters travel, knows no others."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


@dataclass(frozen=True)
class Dataset:
    name: str
    version: int
    #: In upload order.
    sources: tuple[Source, ...]
    #: The home, which all data sets have, is added as the last one.
    stages: tuple[Stage, ...]
    queries: tuple[Query, ...]
    params: tuple[Param, ...] = ()
    #: What it is about, in a line.
    about: str = ""

    def __post_init__(self) -> None:
        from booksan.stages.results import Results

        answering = dict.fromkeys(query.stage for query in self.queries)
        inputs = (*(source.name for source in self.sources), *answering)
        home = Stage(HOME, inputs, Results(), keyed=False)
        declared = (stage for stage in self.stages if stage.name != HOME)
        object.__setattr__(self, "stages", (*declared, home))

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
        """All parameters, with `name=value` settings on top of the defaults."""
        known = {param.name: param for param in self.params}
        values = self.defaults
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


def queue_name(stage: str, shard: int) -> str:
    return f"{stage}.{shard}"
