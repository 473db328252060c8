"""What messages do at a shard: stateless, stateful, control; commit, publish, leave.

State, dedup and output commit together, and the outbox is published after the commit. So a
worker that is killed repeats messages, always the same ones with the same bytes, and never loses
or invents one.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from booksan.errors import StateError
from booksan.logs import of_client
from booksan.messages import Control, Kind, Message, encode, end_message
from booksan.partition import numbered_messages
from booksan.pulse import beat
from booksan.spec import Spec
from booksan.stages.datasets import dataset_named
from booksan.stages.operator import Place, Stateless
from booksan.state.client import ClientStore, database_path
from booksan.state.streams import Conflict
from booksan.worker.departures import Departures
from booksan.worker.environment import is_environment
from booksan.worker.failures import Failures
from booksan.worker.publisher import Publisher
from booksan.worker.session import Session
from booksan.worker.shard import Shard

log = logging.getLogger("booksan.worker")


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
        self.sessions: dict[str, Session] = {}
        self.publisher = Publisher(shard)
        self.failures = Failures(shard, self.publisher)
        self.departures = Departures(shard, self.publisher, self.failures, self._forget_session)

    def resume(self) -> None:
        """Finishes what was begun in an earlier life, without a message to remind it."""
        self.publisher.publish(self.store.db)
        self.departures.resume()
        for path in self.shard.databases():
            client = path.parent.name
            if not self.store.is_failed(client):
                self._resume_client(client, path)

    def handle(self, messages: Sequence[Message]) -> None:
        """Everything that follows from these messages, up to the confirmed publish."""
        groups: dict[str, list[Message]] = {}
        for message in messages:
            groups.setdefault(message.client, []).append(message)
        for client, group in groups.items():
            beat()
            wanted = self._wanted(client, group)
            if wanted:
                self._handle_client(client, wanted)

    def forget_sessions(self) -> None:
        """After an error what an operator keeps in memory may not fit its tables."""
        for client in list(self.sessions):
            self._forget_session(client)

    def _wanted(self, client: str, messages: list[Message]) -> list[Message]:
        """Without what is late: of clients that are gone, past their expiry, or failed."""
        if self.store.is_gone(client):
            return []
        now = self.shard.now()
        wanted = [message for message in messages if message.spec.expires > now]
        if self.store.is_failed(client):
            for message in wanted[:1]:
                self.failures.tell(message.spec)
            wanted = [message for message in wanted if message.kind is Kind.CONTROL]
        return wanted

    def _handle_client(self, client: str, messages: list[Message]) -> None:
        spec = messages[0].spec
        operator = dataset_named(spec.dataset).stage[self.stage].operator
        leave = next((m for m in messages if m.control in (Control.RELEASE, Control.GONE)), None)
        if leave is not None:
            self.departures.leave(leave)
        elif isinstance(operator, Stateless):
            self._handle_stateless(operator, messages)
        else:
            self._handle_stateful(client, messages)

    def _handle_stateless(self, operator: Stateless, messages: list[Message]) -> None:
        """A pure function of each message: no database, ends are passed on as they are."""
        outgoing: list[tuple[str, bytes]] = []
        for message in messages:
            beat()
            place = self._place(message.spec)
            if message.kind is Kind.END:
                end = encode(end_message(message.spec, place.sender, message.seq))
                outgoing += [(queue, end) for queue in place.receiving_queues()]
            elif message.kind is Kind.BATCH:
                output = operator.at(place).transform(message)
                outgoing += numbered_messages(
                    place.dataset, message.spec, place.sender, message.seq, message.digest, output
                )
        self.crash("computed")
        self.publisher.publish_now(outgoing)

    def _handle_stateful(self, client: str, messages: list[Message]) -> None:
        session = self._session(messages[0].spec)
        try:
            session.take(session.fitting(messages))
        except Conflict as conflict:
            self._forget_session(client)
            self.failures.fail(session.place.spec, str(conflict))
            return
        self._carry_on(session)

    def _carry_on(self, session: Session) -> None:
        """Publishes what is committed, then makes and publishes the final output that is due."""
        self.publisher.publish(session.store.db)
        while session.finish_piece():
            beat()
            self.publisher.publish(session.store.db)
            self.crash("final-published")

    def _place(self, spec: Spec) -> Place:
        dataset = dataset_named(spec.dataset)
        if dataset.version != spec.version:
            raise StateError(
                f"client {spec.client} was begun with version {spec.version} of {spec.dataset}; "
                f"this booksan has version {dataset.version}"
            )
        return Place(
            spec, dataset, self.stage, self.number, self.shard.secret, self.settings.piece_rows
        )

    def _session(self, spec: Spec) -> Session:
        session = self.sessions.get(spec.client)
        if session is None:
            path = database_path(self.root, spec.client, self.stage, self.number)
            store = ClientStore.open(path, synchronous=self.settings.synchronous)
            if store is None:
                store = ClientStore.begin(path, spec, synchronous=self.settings.synchronous)
            session = self._new_session(store)
        return session

    def _resume_client(self, client: str, path: Path) -> None:
        """One client whose work cannot be resumed must not keep the others waiting."""
        beat()
        try:
            self._try_to_resume(client, path)
        except Exception as error:
            if is_environment(error):
                raise
            log.exception("its work cannot be resumed", extra=of_client(client))
            session = self.sessions.get(client)
            self._forget_session(client)
            reason = f"cannot be resumed: {type(error).__name__}: {error}"
            if session is not None:
                self.failures.fail(session.place.spec, reason)
            else:
                self.failures.fail_unread(client, reason)

    def _try_to_resume(self, client: str, path: Path) -> None:
        store = ClientStore.open(path, synchronous=self.settings.synchronous)
        if store is None:
            # Killed while it was being made; the message that began it comes again.
            self.departures.delete_state(client)
            return
        self._carry_on(self._new_session(store))

    def _new_session(self, store: ClientStore) -> Session:
        session = Session(store, self._place(store.spec), self.crash, self.shard.now)
        self.sessions[store.spec.client] = session
        return session

    def _forget_session(self, client: str) -> None:
        session = self.sessions.pop(client, None)
        if session is not None:
            session.close()
