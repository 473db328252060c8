"""The door for a client's data: parse a batch, split it by stage and shard, publish it.

A gateway keeps no state. What it must know of a client stands in the signed ticket that comes
with every call, and a repeated call is harmless because it makes the same messages again.
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import polars as pl

from booksan.errors import TransportError
from booksan.gateway.parse import Parsed, parse
from booksan.messages import (
    Control,
    Kind,
    Message,
    control_message,
    digest_of,
    encode,
    end_message,
    to_body,
)
from booksan.partition import numbered_messages
from booksan.spec import HOME, Spec
from booksan.stages.datasets import dataset_named
from booksan.stages.graph import queue_name
from booksan.tickets import check_permit, open_ticket
from booksan.transport.base import Depth, Outgoing, Transport

#: Messages and bytes that may wait in a queue before the gateway holds back: enough to keep
#: every worker busy, little enough to bound the disk, and memory with it.
QUEUE_LIMIT = Depth(messages=256, bytes=64 * 1024 * 1024)
#: Seconds between two questions whether waiting still makes sense.
PATIENCE = 0.5


class QueuesFull(TransportError):
    """The queues had no room for a batch for too long."""


class Receipt(NamedTuple):
    """What a batch turned out to hold."""

    rows: int
    rejected: int


class Gateway:
    def __init__(
        self,
        transport: Transport,
        keys: Sequence[bytes],
        *,
        limit: Depth = QUEUE_LIMIT,
        while_waiting: Callable[[], None] = lambda: None,
        room_seconds: float | None = None,
    ) -> None:
        self.transport = transport
        self.keys = keys
        self.limit = limit
        #: How long full queues may hold a call back before it raises QueuesFull; None for ever.
        self.room_seconds = room_seconds
        #: Called again and again while queues are full; raises to give up.
        self.while_waiting = while_waiting

    def create(self, spec: Spec) -> None:
        """Asks the client's home to begin; its ticket is there when the home has done so."""
        self._tell_home(spec, Control.CREATED)

    def release(self, ticket: str, how: str) -> None:
        """The client has its results, or wants them no more: all that is its is deleted."""
        self._tell_home(open_ticket(self.keys, ticket), Control.RELEASE, how=how)

    def put(
        self, ticket: str, source: str, number: int, data: bytes, permit: str | None
    ) -> Receipt:
        """Takes one batch of whole records; returns when the queues have confirmed all of it."""
        spec = self._admit(ticket, source, permit)
        self._wait_for_room(reading_queues(spec, source))
        dataset = dataset_named(spec.dataset)
        declared = dataset.source[source]
        header = spec.columns[source]
        parsed = parse(
            data,
            header,
            declared.needed,
            declared.kinds,
            declared.delimiter,
            lacking=declared.lacking,
        )
        sender = f"gateway/{source}"
        digest = digest_of(spec.digest, sender, number, data)
        messages = numbered_messages(
            dataset, spec, sender, number, digest, declared.route(parsed.frame, spec.params)
        )
        messages.append(_count_message(spec, sender, number, digest, parsed))
        self.transport.publish([Outgoing(queue, body) for queue, body in messages])
        return Receipt(parsed.records, len(parsed.rejected))

    def end(self, ticket: str, source: str, batches: int, permit: str | None) -> None:
        """Tells every shard that reads the source how many batches it has."""
        spec = self._admit(ticket, source, permit)
        end = encode(end_message(spec, f"gateway/{source}", batches))
        queues = reading_queues(spec, source)
        self._wait_for_room(queues)
        self.transport.publish([Outgoing(queue, end) for queue in queues])

    def has_room(self, spec: Spec, source: str) -> bool:
        """Would a batch of this source be taken at once?"""
        return self.transport.wait_for_room(reading_queues(spec, source), self.limit, 0)

    def _admit(self, ticket: str, source: str, permit: str | None) -> Spec:
        spec = open_ticket(self.keys, ticket)
        check_permit(self.keys, spec, source, permit)
        return spec

    def _wait_for_room(self, queues: Collection[str]) -> None:
        """Holds back while queues are long, before any part of a batch is made or published."""
        begun = time.monotonic()
        while not self.transport.wait_for_room(queues, self.limit, PATIENCE):
            self.while_waiting()
            if self.room_seconds is not None and time.monotonic() - begun >= self.room_seconds:
                raise QueuesFull(
                    f"the queues have been full for {self.room_seconds:g} seconds; "
                    "send the batch again later"
                )

    def _tell_home(self, spec: Spec, control: Control, **data: str) -> None:
        message = control_message(spec, "gateway/none", control, **data)
        self.transport.publish([Outgoing(queue_name(HOME, spec.home), encode(message))])


def reading_queues(spec: Spec, source: str) -> list[str]:
    """The queues of all shards that get a message for each batch of the source."""
    dataset = dataset_named(spec.dataset)
    return [
        queue_name(stage.name, shard)
        for stage in dataset.receivers[source]
        for shard in dataset.shards_of(stage.name, spec)
    ]


def _count_message(
    spec: Spec, sender: str, number: int, digest: str, parsed: Parsed
) -> tuple[str, bytes]:
    """The home counts rows, and keeps what was rejected and why."""
    schema = {"row": pl.UInt32, "reason": pl.String}
    body = to_body(pl.DataFrame(parsed.rejected, schema, orient="row"))
    message = Message(spec, sender, Kind.BATCH, number, digest, {"rows": parsed.records}, body)
    return queue_name(HOME, spec.home), encode(message)
