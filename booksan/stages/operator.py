"""What a stage does with its messages, without knowing how they come and go.

A stateless operator turns one message into frames for the stages after it. A stateful one keeps
tables in the client's database: `prepare` does what needs no lock, `apply` changes the tables
inside the transaction that also records the message, and `final` gives the output in pieces once
all inputs are complete.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from booksan.errors import StateError
from booksan.messages import Message
from booksan.spec import Spec
from booksan.stages.graph import Dataset, Keyed, Params, queue_name


@dataclass(frozen=True)
class Place:
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
        return f"{self.stage}/{self.shard}"

    def receiving_queues(self) -> list[str]:
        """The queues of every shard that reads this stage's output for this client."""
        return [
            queue_name(stage.name, shard)
            for stage in self.dataset.receivers[self.stage]
            for shard in self.dataset.shards_of(stage.name, self.spec)
        ]


@dataclass(frozen=True)
class Piece:
    """A part of the final output, and where the next one begins (None: this was the last)."""

    output: Mapping[str, Keyed] = field(default_factory=dict)
    cursor: str | None = None


class Operator:
    """The root of stateless and stateful operators."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def params(self) -> Params:
        return self.place.params


class Stateless(Operator, ABC):
    @abstractmethod
    def transform(self, message: Message) -> Mapping[str, Keyed]:
        """A pure function of the message: the rows for each stage after this one."""


class Stateful(Operator, ABC):
    #: SQL that creates the operator's tables in a new database.
    schema: ClassVar[str] = ""

    def __init__(self, place: Place, db: sqlite3.Connection) -> None:
        super().__init__(place)
        self.db = db

    def create(self) -> None:
        """Makes the operator's tables, inside the transaction that makes the database."""
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
        row = self.db.execute("SELECT complete FROM inputs WHERE input = ?", (name,)).fetchone()
        return bool(row and row[0])

    def input_complete(self, name: str) -> None:
        """Called in the transaction in which the last message of an input was recorded."""

    def final(self, cursor: str | None) -> Piece:
        """The piece of output that begins at the cursor, inside a transaction."""
        return Piece()

    def piece(self, rows: Sequence[tuple[Any, ...]], output: Mapping[str, Keyed]) -> Piece:
        """A piece whose rows are ordered by their first column; a short one is the last."""
        full = len(rows) == self.place.piece_rows
        return Piece(output, str(rows[-1][0]) if full else None)
