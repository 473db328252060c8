"""What messages do at a shard: stateless, stateful, control; commit, publish, leave.

State, dedup and output commit together, and the outbox is published after the commit. So a
worker that is killed repeats messages, always the same ones with the same bytes, and never loses
or invents one.

Final output needs no message to be made. It is made piece by piece between messages, so that a
client whose output is long, or cannot be made at all, keeps nobody else waiting.
"""

import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from booksan.datasets import dataset_named
from booksan.errors import MessageError, OtherVersion, UsageError
from booksan.heartbeat import beat
from booksan.logs import of_client
from booksan.messages import Control, Kind, Message, encode, end_message
from booksan.partition import numbered_messages
from booksan.spec import HOME, Spec
from booksan.stages.operator import Context, Stateful, Stateless
from booksan.state import outbox
from booksan.state.client import FINISHING, ClientStore, Conflict, database_path
from booksan.transport.base import Outgoing
from booksan.worker.cleanup import Cleanup
from booksan.worker.failures import Failures, is_environment
from booksan.worker.session import Publisher, Session
from booksan.worker.shard import Shard
from booksan_common.backoff import Backoff

log = logging.getLogger("booksan.worker")

#: Seconds: the longest pause before something is done again that did not help.
LONGEST_PAUSE = 1800.0


class Handler:
    """The work of one shard for all of its clients; knows nothing of deliveries."""

    def __init__(self, shard: Shard) -> None:
        self.stage = shard.stage
        self.number = shard.number
        self.root = shard.root
        self.store = shard.store
        self.settings = shard.settings
        self.crash = shard.crash
        self.shard = shard
        #: Those that are open, the one that was used last at the end.
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        #: Clients with work that needs no message; the next one first.
        self.due: OrderedDict[str, None] = OrderedDict()
        self.publisher = Publisher(shard)
        self.failures = Failures(shard, self.publisher)
        self.cleanup = Cleanup(shard, self.publisher, self.failures, self._forget_client)
        #: How soon a home asks again, and how soon a shard sends the same again.
        self._questions = Pauses(self.settings.stalled_after, shard.clock.steady)
        self._repeats = Pauses(self.settings.stalled_after, shard.clock.steady)
        #: Of the home: clients that need nothing any more until they leave.
        self._settled: set[str] = set()

    def resume(self) -> None:
        """Whoever is to leave leaves, and it is noted who has work that an earlier life left.

        That work itself is done between messages. Each database is opened once: there may be
        thousands.
        """
        self.publisher.publish(self.store.db)
        self.cleanup.resume()
        for path in self.shard.databases():
            beat()
            client = path.parent.name
            if not self.store.is_failed(client) and self._is_due(client, path):
                self.due[client] = None
        self.cleanup.expire()

    def handle(self, messages: Sequence[Message]) -> None:
        """Everything that follows from these messages at once, up to the confirmed publish."""
        groups: dict[str, list[Message]] = {}
        for message in messages:
            groups.setdefault(message.client, []).append(message)
        steps = self.shard.steps
        for client, group in groups.items():
            beat()
            if steps.on:
                steps.of.update({client: len(group)})
            wanted = self._wanted(client, group)
            if wanted:
                self._handle_client(client, wanted)

    def advance(self, client: str) -> None:
        """One piece of the work that is due for the client; what is left comes after the others."""
        session = self._session_of(client)
        if session is None:
            del self.due[client]
            return
        self.publisher.publish(session.store.db, keep=True)
        if session.finish_piece():
            self.publisher.publish(session.store.db, keep=True)
            self.crash("final-published")
        self._settle(session)

    def progress_of(self, client: str) -> str:
        """How far the work that is due for the client has come."""
        path = database_path(self.root, client, self.stage, self.number)
        try:
            store = ClientStore.open(path, synchronous=self.settings.synchronous)
        except (sqlite3.DatabaseError, MessageError) as error:
            if is_environment(error):
                raise
            return ""
        if store is None:
            return ""
        with closing(store):
            return store.progress

    def give_up(self, client: str, reason: str) -> None:
        """The client's work cannot be done; the others go on."""
        path = database_path(self.root, client, self.stage, self.number)
        self._forget_client(client)
        try:
            store = ClientStore.open(path, synchronous=self.settings.synchronous)
        except (sqlite3.DatabaseError, MessageError) as error:
            if is_environment(error):
                raise
            self.failures.fail_unread(client, reason)
            return
        if store is not None:
            with closing(store):
                self.failures.fail(store.spec, reason)

    def tick(self) -> None:
        """Now and then: who is to leave; and at a home, who waits for what will not come."""
        self.cleanup.expire()
        if self.stage == HOME:
            for path in self.shard.databases():
                beat()
                self._look_for_stall(path.parent.name)

    def forget_sessions(self) -> None:
        """After an error what an operator keeps in memory may not fit its tables."""
        for client in list(self.sessions):
            self._close_session(client)

    # -- messages ----------------------------------------------------------------------------------

    def _wanted(self, client: str, messages: list[Message]) -> list[Message]:
        """Without what is late: of clients that are gone, long expired, begun anew, or failed."""
        if self.store.is_gone(client):
            return []
        newest = max(message.spec.generation for message in messages)
        if newest > self.store.generation(client):
            self.cleanup.restart(client, newest)
        generation = self.store.generation(client)
        wanted = [message for message in messages if message.spec.generation == generation]
        if wanted and self._is_late(wanted[0].spec):
            self._refuse_late(wanted[0].spec)
            return []
        if self.store.is_failed(client):
            for message in wanted[:1]:
                self.failures.tell(message.spec)
            wanted = [message for message in wanted if message.kind is Kind.CONTROL]
        return wanted

    def _is_late(self, spec: Spec) -> bool:
        clock = self.shard.clock
        return self.cleanup.is_over(spec, clock.now()) and clock.settled

    def _refuse_late(self, spec: Spec) -> None:
        """If it is this clock that is wrong, the run must not wait for what is dropped here."""
        if self.stage != HOME and self._repeats.over(spec.client, "late"):
            self.failures.refuse(spec, "by its clock the run has expired; is the clock right?")

    def _handle_client(self, client: str, messages: list[Message]) -> None:
        leave = next((m for m in messages if m.control in (Control.RELEASE, Control.GONE)), None)
        if leave is not None:
            self.cleanup.leave(leave)
            return
        operator = dataset_named(messages[0].spec.dataset).stage[self.stage].operator
        for message in messages:
            if message.control is Control.REPEAT:
                self._repeat(message)
        rest = [message for message in messages if message.control is not Control.REPEAT]
        if not rest:
            return
        if isinstance(operator, Stateless):
            self._handle_stateless(operator, rest)
        else:
            self._handle_stateful(client, rest)

    def _handle_stateless(self, operator: Stateless, messages: list[Message]) -> None:
        """A pure function of each message: no database, ends are passed on as they are."""
        outgoing: list[Outgoing] = []
        for message in messages:
            beat()
            place = self._place(message.spec)
            if message.kind is Kind.END:
                end = encode(end_message(message.spec, place.sender, message.seq))
                outgoing += [Outgoing(queue, end) for queue in place.receiving_queues()]
            elif message.kind is Kind.BATCH:
                with self.shard.steps.time("prepare"):
                    output = operator.at(place).transform(message)
                    outgoing += numbered_messages(
                        place.dataset,
                        message.spec,
                        place.sender,
                        message.seq,
                        message.digest,
                        output,
                    )
        self.crash("computed")
        self.publisher.publish_now(outgoing)

    def _handle_stateful(self, client: str, messages: list[Message]) -> None:
        session = self._session(messages[0].spec)
        try:
            session.take(session.fitting(messages))
        except Conflict as conflict:
            self._forget_client(client)
            self.failures.fail(session.place.spec, str(conflict))
            return
        self.publisher.publish(session.store.db, keep=True)
        self._settle(session)

    def _repeat(self, message: Message) -> None:
        """Something of this shard has not come where it should: it goes out again.

        What cannot go out yet is asked for further up. A shard that has never heard of the client
        makes its database, so that all can see what it lacks.
        """
        spec, queue = message.spec, str(message.data["to"])
        self.failures.repeat(spec)
        operator = dataset_named(spec.dataset).stage[self.stage].operator
        if self.store.is_failed(spec.client) or not isinstance(operator, Stateful):
            return
        session = self._session(spec)
        self.publisher.publish_now(session.questions())
        if self._repeats.over(spec.client, queue):
            session.repeat(queue)
            self.publisher.publish(session.store.db, keep=True)
        self._settle(session)

    # -- what waits --------------------------------------------------------------------------------

    def _look_for_stall(self, client: str) -> None:
        """Nothing waits for ever because a queue lost a message."""
        if client in self._settled or self.store.is_failed(client):
            return
        try:
            self._ask_if_stalled(client)
        except OtherVersion as error:
            log.error("cannot be looked at: %s", error, extra=of_client(client))
        except (sqlite3.DatabaseError, MessageError) as error:
            if is_environment(error):
                raise
            self.cleanup.unreadable(client, error)

    def _ask_if_stalled(self, client: str) -> None:
        session = self._session_of(client)
        if session is None:
            return
        questions = session.questions()
        if session.store.settled and not questions:
            self._settled.add(client)
            self._close_session(client)
        elif self.shard.now() - session.store.last_moved() < self.settings.stalled_after:
            self._questions.forget(client)
        elif self._questions.over(client):
            log.info("nothing has come for long; asks again", extra=of_client(client))
            self.publisher.publish_now(questions)

    def _settle(self, session: Session) -> None:
        """Notes what is left to do; closes what nobody needs, and what was not used for long."""
        client = session.place.spec.client
        self.due.pop(client, None)
        if session.is_finishing:
            self.due[client] = None
        elif session.store.settled:
            self._close_session(client)
        while len(self.sessions) > self.settings.max_sessions:
            self._close_session(next(iter(self.sessions)))

    def _is_due(self, client: str, path: Path) -> bool:
        """One client whose work cannot be resumed must not keep the others waiting."""
        try:
            store = ClientStore.open(path, synchronous=self.settings.synchronous)
            if store is None or store.spec.generation < self.store.generation(client):
                # Killed while it was being made, or deleted; what began it comes again.
                if store is not None:
                    store.close()
                self.cleanup.delete_state(client)
                return False
            with closing(store):
                self.cleanup.note_end(store)
                return store.phase == FINISHING or outbox.waiting(store.db)
        except (sqlite3.DatabaseError, MessageError) as error:
            if is_environment(error):
                raise
            self.cleanup.unreadable(client, error)
            return False

    # -- sessions ----------------------------------------------------------------------------------

    def _place(self, spec: Spec) -> Context:
        begun = f"client {spec.client} was begun with version {spec.version} of {spec.dataset}"
        try:
            dataset = dataset_named(spec.dataset)
        except UsageError as error:
            raise OtherVersion(f"{begun}: {error}") from error
        if dataset.version != spec.version:
            raise OtherVersion(f"{begun}; this booksan has version {dataset.version}")
        return Context(
            spec, dataset, self.stage, self.number, self.shard.secret, self.settings.piece_rows
        )

    def _session(self, spec: Spec) -> Session:
        session = self._session_of(spec.client)
        if session is None:
            path = database_path(self.root, spec.client, self.stage, self.number)
            store = ClientStore.begin(path, spec, synchronous=self.settings.synchronous)
            session = self._new_session(store)
        return session

    def _session_of(self, client: str) -> Session | None:
        """None if there is nothing of the client here."""
        session = self.sessions.get(client)
        if session is not None:
            self.sessions.move_to_end(client)
            return session
        path = database_path(self.root, client, self.stage, self.number)
        store = ClientStore.open(path, synchronous=self.settings.synchronous)
        return None if store is None else self._new_session(store)

    def _new_session(self, store: ClientStore) -> Session:
        try:
            session = Session(store, self._place(store.spec), self.shard)
        except BaseException:
            store.close()
            raise
        self.sessions[store.spec.client] = session
        return session

    def _close_session(self, client: str) -> None:
        session = self.sessions.pop(client, None)
        if session is not None:
            session.close()

    def _forget_client(self, client: str) -> None:
        """Nothing is to be done for it any more."""
        self._close_session(client)
        self.due.pop(client, None)
        self._settled.discard(client)
        self._questions.forget(client)
        self._repeats.forget(client)


class Pauses:
    """Pauses that double from one time to the next, for each of many things of each client."""

    def __init__(self, first: float, steady: Callable[[], float]) -> None:
        self._first = first
        self._steady = steady
        #: When each may be done again, and the pauses after that.
        self._next: dict[str, dict[str, tuple[float, Backoff]]] = {}

    def over(self, client: str, what: str = "") -> bool:
        """May it be done now? Then the next pause begins."""
        now = self._steady()
        of_client = self._next.setdefault(client, {})
        due, pauses = of_client.get(what) or (now, Backoff(self._first, LONGEST_PAUSE))
        if now < due:
            return False
        of_client[what] = (now + next(pauses), pauses)
        return True

    def forget(self, client: str) -> None:
        self._next.pop(client, None)
