"""Exactly-once broken on purpose. The search must find each, and need only a few faults for it."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from booksan.messages import Message
from booksan.state import outbox
from booksan.state.client import ClientStore, Stream, Verdict
from booksan.state.database import transaction
from booksan.transport.base import Delivery
from booksan.worker import session
from booksan.worker.handler import Handler
from booksan.worker.session import Publisher, Session
from booksan.worker.shard import Shard
from tests.simulation.memory import MemoryConsumer

#: What to put in place of what: (owner, name, broken).
Break = tuple[object, str, Any]
MUTATIONS: dict[str, Sequence[Break]] = {}


def _repeats_count() -> Sequence[Break]:
    record = ClientStore.record

    def again(store: ClientStore, message: Message, now: float) -> None:
        with suppress(sqlite3.IntegrityError):
            record(store, message, now)

    def judge(store: ClientStore, message: Message) -> Verdict:
        return Verdict.NEW

    return ((ClientStore, "judge", judge), (ClientStore, "record", again))


def _published_before_the_commit() -> Sequence[Break]:
    """What a join reports goes out inside of the transaction."""
    advance, make = Session._advance, Publisher.__init__
    ways: dict[str, Publisher] = {}

    def noted(publisher: Publisher, shard: Shard) -> None:
        make(publisher, shard)
        ways[shard.queue] = publisher

    def early(one: Session) -> bool:
        reported = advance(one)
        for chunk in outbox.chunks(one.store.db):
            ways[one.place.queue]._transport.publish(chunk)
        return reported

    return ((Publisher, "__init__", noted), (Session, "_advance", early))


def _acknowledged_before_the_commit() -> Sequence[Break]:
    """As a consumer does that acknowledges by itself."""
    receive, acknowledge = MemoryConsumer.receive, MemoryConsumer.acknowledge

    def at_once(
        consumer: MemoryConsumer, max_messages: int, max_bytes: int, timeout: float
    ) -> list[Delivery]:
        found = receive(consumer, max_messages, max_bytes, timeout)
        acknowledge(consumer, found)
        return found

    def not_again(consumer: MemoryConsumer, deliveries: object) -> None:
        """It is done."""

    return ((MemoryConsumer, "receive", at_once), (MemoryConsumer, "acknowledge", not_again))


def _outbox_not_resent() -> Sequence[Break]:
    is_due = Handler._is_due

    def only_output(handler: Handler, client: str, path: Any) -> bool:
        with patch.object(outbox, "waiting", lambda db: False):
            return is_due(handler, client, path)

    return ((Handler, "_is_due", only_output),)


def _the_end_by_order() -> Sequence[Break]:
    """A stream is taken for complete when its end has come."""
    newly = ClientStore.newly_complete

    def ended(store: ClientStore) -> list[str]:
        store.db.execute("UPDATE streams SET received = length WHERE length IS NOT NULL")
        return newly(store)

    whole = property(lambda stream: stream.length is not None)
    return ((ClientStore, "newly_complete", ended), (Stream, "complete", whole))


def _a_failed_commit_counts() -> Sequence[Break]:
    """The worker goes on as if it had been made."""

    @contextmanager
    def careless(db: sqlite3.Connection) -> Iterator[None]:
        with suppress(sqlite3.OperationalError), transaction(db):
            yield

    return ((session, "transaction", careless),)


_MAKERS: dict[str, Callable[[], Sequence[Break]]] = {
    "repeats count again": _repeats_count,
    "published before the commit": _published_before_the_commit,
    "acknowledged before the commit": _acknowledged_before_the_commit,
    "an outbox is not sent after a restart": _outbox_not_resent,
    "the end by order": _the_end_by_order,
    "a failed commit counts": _a_failed_commit_counts,
}
MUTATIONS.update((name, make()) for name, make in _MAKERS.items())


@contextmanager
def broken(name: str) -> Iterator[None]:
    """While this lasts the code is wrong."""
    with _all(MUTATIONS[name]):
        yield


@contextmanager
def _all(breaks: Sequence[Break]) -> Iterator[None]:
    if not breaks:
        yield
        return
    owner, attribute, wrong = breaks[0]
    with patch.object(owner, attribute, wrong), _all(breaks[1:]):
        yield
