"""The worker's loop: receive, handle, acknowledge; and what to do with a message that raises.

A poison message cannot stop the others: one that raises again and again when it is handled
alone, or that kills the worker ten times in a row, becomes a dead letter. A full disk or a lost
connection never counts against a message.
"""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from booksan.errors import MessageError
from booksan.messages import Control, Message, decode
from booksan.pulse import beat
from booksan.state import outbox
from booksan.transport.base import Delivery
from booksan.worker.environment import is_environment
from booksan.worker.letters import keep_letter, letter_id
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
        self.consumer = shard.transport.consume(shard.queue)
        #: Messages still to be handled one by one, because the last life ended badly.
        self.careful = 0
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
        if unclean and suspicious:
            self.careful = self.settings.max_messages
        if self._has_work_due():
            self.handler.resume()

    def _has_work_due(self) -> bool:
        return (
            outbox.waiting(self.store.db)
            or bool(self.shard.databases())
            or bool(self.store.clients_with_letters())
        )

    def warm_up(self) -> None:
        """Loads what the first message will need, while there is nothing else to do."""
        assert self.handler is not None

    def step(self, timeout: float) -> bool:
        """Handles what is waiting; False if nothing came in time."""
        beat()
        self._tick()
        limit = 1 if self.careful else self.settings.max_messages
        deliveries = self.consumer.receive(limit, self.settings.max_bytes, timeout)
        if not deliveries:
            return False
        self.crash("received")
        if self.careful:
            self._handle_carefully(deliveries[0])
        else:
            self._handle_together(deliveries)
        self.consumer.acknowledge(deliveries)
        self.crash("acknowledged")
        return True

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
        tries, reason = 0, ""
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
                reason = f"{type(error).__name__}: {error}"
                tries = self.store.count_attempt(letter, reason)
            else:
                if tries:
                    self.store.forget_attempts(letter)
                return
        self._bury_letter(delivery, reason)

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
        deaths = self.store.take_in_hand(letter)
        if deaths >= self.settings.max_deaths:
            self._bury_letter(delivery, f"the worker died {deaths} times in a row with it in hand")
        else:
            self._handle_in_hand(letter, delivery)
        self.store.put_down(letter)
        self.careful -= 1

    def _handle_in_hand(self, letter: str, delivery: Delivery) -> None:
        try:
            self._handle_alone(delivery)
        except Exception:
            # Only trouble with the machine gets here, and that is not the message's fault. On a
            # full disk even this cannot be noted; then one death too many is counted.
            with contextlib.suppress(sqlite3.OperationalError):
                self.store.put_down(letter)
            raise

    def _bury_letter(self, delivery: Delivery, reason: str) -> None:
        """The message is kept with its error; the client's run fails, the others go on."""
        shard = self.shard
        path = keep_letter(shard.root, shard.stage, shard.number, delivery.body, reason)
        log.error("dead letter %s: %s", path, reason)
        self.store.forget_attempts(letter_id(delivery.body))
        try:
            message = decode(delivery.body)
        except MessageError:
            return
        # A home that cannot note a failure must not report that failure to itself for ever.
        if message.control is not Control.FAILED:
            self.handler.failures.bury_letter(message.spec, letter_id(delivery.body), reason)

    def _tick(self) -> None:
        """Now and then: clients past their hard expiry, tombstones no longer needed."""
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + self.settings.tick
            self.handler.departures.expire()

    def _forget_sessions(self) -> None:
        if self._handler is not None:
            self._handler.forget_sessions()
