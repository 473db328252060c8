"""What a stage does with its messages, without knowing how they come and go.

A stateless operator turns one message into frames for the stages after it. A stateful one keeps
tables, and rows in columns, in the client's database: `prepare` does what needs no lock, `apply`
changes them inside the transaction that also records the message, and `final` gives the output in
pieces once all inputs are complete.

A data set declares operators once; for each client a worker works with copies of them, which know
their place and have a database.
"""

import copy
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from booksan.errors import StateError
from booksan.messages import Message
from booksan.shards import ShardId, queue_name
from booksan.spec import Spec
from booksan.stages.graph import Dataset, Keyed, Params
from booksan.state.columns import ColumnStore
from booksan.state.readers import inputs


@dataclass(frozen=True)
class Context:
    """Where an operator works: for which client, as which shard of which stage."""

    spec: Spec
    dataset: Dataset
    stage: str
    shard: int
    #: The cluster's, for what the home signs.
    secret: bytes = b""
    #: Rows in one piece of final output.
    piece_rows: int = 10_000

    @property
    def params(self) -> Params:
        return self.spec.params

    @property
    def sender(self) -> str:
        return ShardId(self.stage, self.shard).sender

    @property
    def queue(self) -> str:
        return queue_name(self.stage, self.shard)

    def receiving_queues(self) -> list[str]:
        """The queues of every shard that reads this stage's output for this client."""
        return [
            queue_name(stage.name, shard)
            for stage in self.dataset.receivers[self.stage]
            for shard in self.dataset.shards_of(stage.name, self.spec)
        ]


class Matches(NamedTuple):
    rows: int
    #: Of them, those that found what they are joined to.
    matched: int


@dataclass(frozen=True)
class Piece:
    """A part of the final output, and where the next one begins (None: this was the last)."""

    output: Mapping[str, Keyed] = field(default_factory=dict)
    cursor: str | None = None


class Operator:
    """The root of stateless and stateful operators."""

    place: Context

    @property
    def params(self) -> Params:
        return self.place.params


class Stateless(Operator, ABC):
    def at(self, place: Context) -> Self:
        """The operator that works there."""
        bound = copy.copy(self)
        bound.place = place
        return bound

    @abstractmethod
    def transform(self, message: Message) -> Mapping[str, Keyed]:
        """A pure function of the message: the rows for each stage after this one."""


class Stateful(Operator, ABC):
    #: SQL that creates the operator's tables in a new database.
    schema: str = ""
    db: sqlite3.Connection

    def at(self, place: Context, db: sqlite3.Connection) -> Self:
        """The operator that works there, on its tables and stores in this database."""
        bound = copy.copy(self)
        bound.place, bound.db = place, db
        vars(bound).update({name: store.at(db) for name, store in self._stores().items()})
        return bound

    def _stores(self) -> dict[str, ColumnStore]:
        return {name: it for name, it in vars(self).items() if isinstance(it, ColumnStore)}

    def create(self) -> None:
        """Makes the operator's tables, inside the transaction that makes the database."""
        for store in self._stores().values():
            store.create()
        for statement in filter(None, map(str.strip, self.schema.split(";"))):
            self.db.execute(statement)

    @abstractmethod
    def prepare(self, message: Message) -> Any:
        """The costly part: parsing, joining with what is known, sentiment. Changes nothing."""

    @abstractmethod
    def apply(self, message: Message, prepared: Any) -> None:
        """Changes the tables, inside a transaction."""

    def control(self, message: Message) -> None:
        """A control message, inside a transaction; only the home has any use for them."""
        raise StateError(f"{self.place.stage} does not take {message.data['control']} messages")

    def is_complete(self, name: str) -> bool:
        """Has this input arrived completely?"""
        return inputs(self.db).get(name, False)

    def failure(self) -> str | None:
        """Why the client's run has failed; only the home knows."""
        return None

    def unheard(self) -> Iterable[str]:
        """Senders whose word is still to come, besides those of streams that are not complete."""
        return ()

    def input_complete(self, name: str) -> None:
        """Called in the transaction in which the last message of an input was recorded."""

    def matches(self, name: str) -> Matches | None:
        """How many rows of a complete input were joined; None if nothing is joined, or counted."""
        return None

    def final(self, cursor: str | None) -> Piece:
        """The piece of output that begins at the cursor, inside a transaction.

        All pieces together name every stage that reads this one, also when there are no rows.
        """
        return Piece()
