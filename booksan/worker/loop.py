"""The worker's loop: receive, handle, acknowledge; and what to do with a message that raises.

A poison message cannot stop the others: one that raises again and again when it is handled
alone, or that kills the worker ten times in a row, becomes a dead letter. Nor can a client whose
final output cannot be made: it is counted in the same way, and its run fails. A full disk or a
lost connection never counts against anything.
"""

import contextlib
import logging
import sqlite3
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from booksan.errors import MessageError, OtherVersion
from booksan.heartbeat import beat, has_hung
from booksan.logs import of_client
from booksan.messages import Control, Message, decode
from booksan.stages.dataset_errors import in_words
from booksan.state import outbox
from booksan.transport.base import Delivery
from booksan.worker.failures import is_environment, keep_letter, letter_id
from booksan.worker.shard import Shard

if TYPE_CHECKING:
    from booksan.worker.handler import Handler

log = logging.getLogger("booksan.worker")


class Worker:
    """One shard of one stage. Call `resume` once, then `step` again and again, then `close`."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.settings = shard.settings
        self.store = shard.store
        self.crash = shard.crash
        self.steps = shard.steps
        self.consumer = shard.transport.consume(shard.queue)
        #: Messages still to be handled one by one, because the last life ended badly.
        self.careful = 0
        #: Clients whose work may have ended it.
        self._suspects: set[str] = set()
        self._next_suspect = 0.0
        #: How many deaths the last one counts for, against whatever was in hand.
        self._weight = 1
        self._next_tick = time.monotonic() + self.settings.tick
        self._handler: Handler | None = None

    @property
    def handler(self) -> "Handler":
        """Made when it is first needed: it brings polars along, which takes a while to load."""
        if self._handler is None:
            from booksan.worker.handler import Handler

            self._handler = Handler(self.shard)
        return self._handler

    def close(self) -> None:
        """After this the next life knows that nothing went wrong."""
        self.abandon()
        self.store.end_life()

    def abandon(self) -> None:
        """Lets go of everything; what was in hand is delivered again."""
        self._forget_sessions()
        self.consumer.close()

    def resume(self, *, suspicious: bool = True) -> None:
        """Begins a life; after a bad end of the last one, messages are handled one by one."""
        unclean = self.store.begin_life()
        if self._has_work_due():
            self.handler.resume()
        if unclean and suspicious:
            self.careful = self.settings.max_messages
            self._suspects = set(self.handler.due) if self._handler else set()
            self._next_suspect = time.monotonic() + self.settings.suspect_seconds
            self._weight = self.settings.hang_weight if has_hung() else 1

    def _has_work_due(self) -> bool:
        return (
            outbox.waiting(self.store.db)
            or bool(self.shard.databases())
            or bool(self.store.clients_with_letters())
        )

    @property
    def is_busy(self) -> bool:
        """Is there work that needs no message?"""
        return self._handler is not None and bool(self._handler.due)

    def step(self, timeout: float) -> bool:
        """Handles what is waiting, and a piece of what is due; False if there was nothing.

        What makes effects happen exactly once, each step with its crash points:

        1. receive: what is waiting, up to a bound in messages and bytes. (received)
        2. prepare: repeats are dropped, and all that needs no lock is computed. (computed)
        3. transaction: dedup, state and outbox commit together. (in-transaction, committed)
        4. publish: the outbox goes out and is confirmed. (partly-published, published)
        5. clear: what was published is noted as such. (outbox-cleared)
        6. acknowledge: only now the queue forgets the messages. (acknowledged)

        Killed between any two of them, the next life gets the same messages again, finds those in
        dedup that were committed, and publishes what was not noted, with the same bytes. Steps 2
        to 5 are `Session.take` and `Publisher.publish`, by way of `Handler.handle`. Final output
        goes through 3 to 5 alone, piece by piece (`Session.finish_piece`).
        """
        beat()
        self._tick()
        limit = 1 if self.careful else self.settings.max_messages
        patience = 0.0 if self.is_busy else timeout
        deliveries = self.consumer.receive(limit, self.settings.max_bytes, patience)
        if deliveries:
            self.crash("received")
            if self.careful:
                self._handle_carefully(deliveries[0])
            else:
                self._handle_together(deliveries)
            with self.steps.time("acknowledge"):
                self.consumer.acknowledge(deliveries)
            self.crash("acknowledged")
            self.steps.tell("step", messages=len(deliveries))
        return self._carry_on(alone=not deliveries) or bool(deliveries)

    def _carry_on(self, *, alone: bool) -> bool:
        """A piece of the work that needs no message; `alone`: no message is waiting for it."""
        if not self.is_busy:
            return False
        client = next(iter(self.handler.due))
        if client not in self._suspects:
            self._advance(client)
            return True
        now = time.monotonic()
        if alone or now >= self._next_suspect:
            self._next_suspect = now + self.settings.suspect_seconds
            self._advance_carefully(client)
        return True

    def _advance(self, client: str) -> None:
        """What raises is tried again after the others' work, and then the run has failed."""
        try:
            self.handler.advance(client)
            self.steps.tell("piece", client)
        except OtherVersion as error:
            log.error("waits for another version: %s", error, extra=of_client(client))
            del self.handler.due[client]
        except Exception as error:
            self._forget_sessions()
            if is_environment(error):
                raise
            log.exception("its output cannot be made", extra=of_client(client))
            reason = f"its output cannot be made: {in_words(error)}"
            if self.store.count_attempt(_work_for(client), reason) >= self.settings.max_attempts:
                self._give_up(client, reason)
            else:
                self.handler.due.move_to_end(client)

    def _advance_carefully(self, client: str) -> None:
        """After a death: what is in hand is written down first, so that deaths can be counted.

        They count as long as the work gets no further.
        """
        work = _work_for(client)
        place = f"{work}{self.handler.progress_of(client)}"
        deaths = self.store.take_in_hand(place, self._weight, instead_of=work)
        if deaths >= self.settings.max_deaths:
            self.store.put_down(place)
            self._give_up(
                client, f"the worker died or hung again and again ({deaths}) on its output"
            )
            return
        with self._in_hand(place):
            self._advance(client)
        self.store.put_down(place)
        if client not in self.handler.due:
            self._suspects.discard(client)

    def _give_up(self, client: str, reason: str) -> None:
        self.handler.give_up(client, reason)
        self.store.forget_attempts(_work_for(client))
        self._suspects.discard(client)

    def _handle_together(self, deliveries: Sequence[Delivery]) -> None:
        """The normal way; if it raises, each message is tried alone to find the bad one."""
        try:
            messages = [decode(delivery.body) for delivery in deliveries]
            self.handler.handle(messages)
            self._forgive(zip(deliveries, messages, strict=True))
        except Exception as error:
            self._forget_sessions()
            if is_environment(error):
                raise
            log.exception("a group of messages raised; trying each alone")
            for delivery in deliveries:
                self._handle_alone(delivery)

    def _handle_alone(self, delivery: Delivery) -> None:
        """Until it works, or has failed often enough to be a dead letter."""
        letter = letter_id(delivery.body)
        tries, reason, where = 0, "", ""
        while tries < self.settings.max_attempts:
            beat()
            try:
                message = decode(delivery.body)
                self.handler.handle([message])
                self._forgive([(delivery, message)])
            except Exception as error:
                self._forget_sessions()
                if is_environment(error):
                    raise
                log.exception("a message raised, handled alone")
                reason, where = in_words(error), traceback.format_exc()
                tries = self.store.count_attempt(letter, reason)
            else:
                if tries:
                    self.store.forget_attempts(letter)
                return
        self._dead_letter(delivery, reason, where)

    def _forgive(self, handled: Iterable[tuple[Delivery, Message]]) -> None:
        """Dead letters that were replayed and went well this time."""
        if self.store.open_letters:
            for delivery, message in handled:
                letter = letter_id(delivery.body)
                if letter in self.store.open_letters:
                    self.handler.failures.forgive(message.spec, letter)

    def _handle_carefully(self, delivery: Delivery) -> None:
        """After a death: what is in hand is written down first, so that deaths can be counted."""
        letter = letter_id(delivery.body)
        deaths = self.store.take_in_hand(letter, self._weight)
        if deaths >= self.settings.max_deaths:
            self._dead_letter(delivery, f"the worker died {deaths} times in a row with it in hand")
        else:
            with self._in_hand(letter):
                self._handle_alone(delivery)
        self.store.put_down(letter)
        self.careful -= 1

    @contextlib.contextmanager
    def _in_hand(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception:
            # Only trouble with the machine gets here, and that is nobody's fault. On a full disk
            # even this cannot be noted; then one death too many is counted.
            with contextlib.suppress(sqlite3.OperationalError):
                self.store.put_down(what)
            raise

    def _dead_letter(self, delivery: Delivery, reason: str, where: str = "") -> None:
        """The message is kept with its error; the client's run fails, the others go on."""
        shard = self.shard
        path = keep_letter(shard.root, shard.stage, shard.number, delivery.body, reason, where)
        log.error("dead letter %s: %s", path, reason)
        self.store.forget_attempts(letter_id(delivery.body))
        try:
            message = decode(delivery.body)
        except MessageError:
            return
        # A home that cannot note a failure must not report that failure to itself for ever.
        if message.control is not Control.FAILED:
            self.handler.failures.open_letter(message.spec, letter_id(delivery.body), reason)

    def _tick(self) -> None:
        """Now and then: clients past their hard expiry, runs that stall, old tombstones."""
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + self.settings.tick
            self.handler.tick()

    def _forget_sessions(self) -> None:
        if self._handler is not None:
            self._handler.forget_sessions()


def _work_for(client: str) -> str:
    """What is counted against a client and not against a message, whose names are digests."""
    return f"output of {client}: "
