"""A stateful shard's work for one client: its store, its operator, its output, published."""

import logging
import sqlite3
from collections.abc import Iterator, Sequence

from booksan import news
from booksan.heartbeat import beat
from booksan.logs import of_client
from booksan.messages import Control, Kind, Message, control_message, encode, end_message
from booksan.partition import bodies, body_digest, partition
from booksan.shards import queue_name
from booksan.spec import HOME
from booksan.stages.graph import Keyed
from booksan.stages.operator import Context, Stateful
from booksan.state import outbox
from booksan.state.client import ENDED, FINISHING, TAKING, ClientStore, Conflict, Verdict
from booksan.state.database import transaction
from booksan.transport.base import Outgoing
from booksan.worker.shard import Shard

log = logging.getLogger("booksan.worker")

# Out of the outbox into the queues: publish, confirm, and only then note that it is done.


class Publisher:
    def __init__(self, shard: Shard) -> None:
        self._transport = shard.transport
        self._chunk = shard.settings.publish_chunk
        self._crash = shard.crash
        self._steps = shard.steps

    def publish(self, db: sqlite3.Connection, *, keep: bool = False) -> None:
        """Everything that waits in the outbox, confirmed; `keep` it, to send it again if asked."""
        if not outbox.waiting(db):
            return
        with self._steps.time("publish"):
            for count, chunk in enumerate(outbox.chunks(db, self._chunk)):
                beat()
                if count:
                    self._crash("partly-published")
                self._transport.publish(chunk)
        self._crash("published")
        (outbox.mark_published if keep else outbox.clear)(db)
        self._crash("outbox-cleared")

    def publish_now(self, messages: Sequence[Outgoing]) -> None:
        """What a stateless stage makes of its input, which is acknowledged after this."""
        with self._steps.time("publish"):
            for start in range(0, len(messages), self._chunk):
                if start:
                    self._crash("partly-published")
                self._transport.publish(messages[start : start + self._chunk])
        self._crash("published")


# A stateful shard's work for one client: its store, its operator, its output.


class Session:
    """Everything a transaction of one client touches. Closed and made anew after any error."""

    def __init__(self, store: ClientStore, place: Context, shard: Shard) -> None:
        operator = place.dataset.stage[place.stage].operator
        assert isinstance(operator, Stateful)
        self.store = store
        self.place = place
        self.crash = shard.crash
        self.now = shard.now
        self.steps = shard.steps
        self.operator = operator.at(place, store.db)
        if not store.made:
            self._create()

    def close(self) -> None:
        self.store.close()

    def fitting(self, messages: Sequence[Message]) -> list[Message]:
        """Those under the spec that the client began with.

        A creation with another spec is refused by not being noted; data under it contradicts.
        """
        fitting = [m for m in messages if m.spec.digest == self.store.spec.digest]
        if len(fitting) < len(messages):
            for message in messages:
                if message.kind is not Kind.CONTROL and message not in fitting:
                    raise Conflict("messages of the same client carry different specs")
        return fitting

    def take(self, messages: Sequence[Message]) -> None:
        """Handles batches, ends and controls in one transaction; repeats change nothing."""
        with self.steps.time("prepare"):
            new = self._new(messages)
            prepared = [self._prepared(message) for message in new]
        self.crash("computed")
        if not new:
            return
        with self.steps.time("transaction"), transaction(self.store.db):
            for message, result in zip(new, prepared, strict=True):
                self._apply(message, result)
            reported = self._advance()
            self.crash("permit-in-transaction" if reported else "in-transaction")
        self.crash("permit-committed" if reported else "committed")

    def finish_piece(self) -> bool:
        """One piece of the final output, with the ends after the last; False if none is due."""
        if self.store.phase != FINISHING:
            return False
        with self.steps.time("transaction"), transaction(self.store.db):
            piece = self.operator.final(self.store.meta("cursor"))
            for stage, keyed in piece.output.items():
                self._emit(stage, keyed)
            self.store.set_meta("cursor", piece.cursor)
            if piece.cursor is None:
                self._emit_ends()
                self.store.set_meta("phase", ENDED)
            self.crash("final-in-transaction")
        self.crash("final-committed")
        return True

    @property
    def is_finishing(self) -> bool:
        return self.store.phase == FINISHING

    def repeat(self, queue: str) -> None:
        """All that was ever sent to this queue is sent once more; nothing new is made of it."""
        with transaction(self.store.db):
            outbox.repeat(self.store.db, queue)

    def questions(self) -> list[Outgoing]:
        """To those of whom something is still to come here, and who can send it again."""
        place = self.place
        asked = {*filter(self._keeps, self.store.incomplete_senders()), *self.operator.unheard()}
        question = encode(control_message(place.spec, place.sender, Control.REPEAT, to=place.queue))
        return [
            Outgoing(queue_name(stage, int(shard)), question)
            for stage, _, shard in (sender.partition("/") for sender in sorted(asked))
        ]

    def _keeps(self, sender: str) -> bool:
        """What clients upload, and what is made of it without state, only the client has."""
        stage = self.place.dataset.stage.get(sender.partition("/")[0])
        return stage is not None and isinstance(stage.operator, Stateful)

    def _create(self) -> None:
        """A database that was not completely made is as good as none."""
        streams = [
            (sender, name)
            for name in self.place.dataset.stage[self.place.stage].inputs
            for sender in self.place.dataset.senders(name, self.place.spec)
        ]
        with transaction(self.store.db):
            self.store.create(self.place.stage, self.place.shard, streams, self.now())
            self.operator.create()
            self._tell(news.BEGINS)

    def _new(self, messages: Sequence[Message]) -> list[Message]:
        """Without repeats, so that nothing is prepared in vain."""
        return [
            message
            for message in _without_copies(messages)
            if message.kind is Kind.CONTROL or self.store.judge(message) is Verdict.NEW
        ]

    def _prepared(self, message: Message) -> object:
        """The costly part: a group of long texts takes longer than a worker may be silent."""
        beat()
        return self.operator.prepare(message) if message.kind is Kind.BATCH else None

    def _apply(self, message: Message, prepared: object) -> None:
        if message.kind is Kind.CONTROL:
            self._control(message)
        # Judged again, because two messages of one group can contradict each other.
        elif self.store.judge(message) is Verdict.NEW:
            self.store.record(message, self.now())
            if message.kind is Kind.BATCH:
                self.operator.apply(message, prepared)

    def _control(self, message: Message) -> None:
        before = self.operator.failure()
        self.operator.control(message)
        after = self.operator.failure()
        if before is None and after is not None:
            self._tell(news.FAILED, after)
        elif before is not None and after is None:
            self._tell(news.DONE if self.store.all_complete() else news.HEALED)

    def _advance(self) -> bool:
        """What follows from the messages recorded in this transaction; True if home is told."""
        reported = False
        for name in self.store.newly_complete():
            log.debug("complete", extra=of_client(self.place.spec.client, input=name))
            self.operator.input_complete(name)
            if name in self.place.dataset.stage[self.place.stage].joins:
                self._report_complete(name)
                reported = True
            matches = self.operator.matches(name)
            if matches is not None:
                self._report_complete(name, rows=matches.rows, matched=matches.matched)
        if self.store.phase == TAKING and self.store.all_complete():
            self.store.set_meta("phase", FINISHING)
            if self.operator.failure() is None:
                self._tell(news.DONE)
        return reported

    def _tell(self, what: str, reason: str = "") -> None:
        """What people hear of runs they hear from the home."""
        if self.place.stage == HOME:
            news.of_run(self.place.spec, what, rows=self.store.uploaded_rows(), reason=reason)

    def _report_complete(self, source: str, **more: int) -> None:
        """The home gives the permit for the next source when all joins have said this.

        It goes out before the final output does, so a home that has all answers has it too.
        """
        place = self.place
        message = control_message(
            place.spec,
            place.sender,
            Control.COMPLETE,
            source=source,
            stage=place.stage,
            shard=place.shard,
            **more,
        )
        self.store.post([Outgoing(queue_name(HOME, place.spec.home), encode(message))])

    def _emit(self, stage: str, keyed: Keyed) -> None:
        place = self.place
        for shard, frame in partition(place.dataset, place.spec, stage, keyed):
            queue = queue_name(stage, shard)
            for rows, body in bodies(frame):
                seq = self.store.next_seq(queue)
                digest = body_digest(place.spec, place.sender, seq, body)
                message = Message(
                    place.spec, place.sender, Kind.BATCH, seq, digest, {"rows": rows}, body
                )
                self.store.post([Outgoing(queue, encode(message))])

    def _emit_ends(self) -> None:
        for queue in self.place.receiving_queues():
            length = self.store.sent_to(queue)
            message = end_message(self.place.spec, self.place.sender, length)
            self.store.post([Outgoing(queue, encode(message))])


def _without_copies(messages: Sequence[Message]) -> Iterator[Message]:
    seen: set[tuple[str, Kind, int, str]] = set()
    for message in messages:
        identity = (message.sender, message.kind, message.seq, message.digest)
        if identity not in seen:
            seen.add(identity)
            yield message
