"""What messages do at a shard: stateless, stateful, control; commit, publish, leave.

State, dedup and output commit together, and the outbox is published after the commit. So a
worker that is killed repeats messages, always the same ones with the same bytes, and never loses
or invents one.
"""

import errno
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from booksan.errors import StateError
from booksan.messages import Control, Kind, Message, control_message, encode, end_message
from booksan.partition import numbered_messages
from booksan.spec import HOME, Spec
from booksan.stages.datasets import dataset_named
from booksan.stages.graph import queue_name
from booksan.stages.operator import Place, Stateless
from booksan.state import outbox
from booksan.state.client import ClientStore, database_path
from booksan.state.database import delete_database
from booksan.state.streams import Conflict
from booksan.transport.base import Outgoing
from booksan.worker.environment import is_environment
from booksan.worker.session import Session
from booksan.worker.shard import Shard

log = logging.getLogger("booksan.worker")

#: Seconds that a database which cannot be read is kept for a person to look at.
UNREADABLE_SECONDS = 7 * 24 * 3600


class Handler:
    """The work of one shard for all of its clients; knows nothing of deliveries."""

    def __init__(self, shard: Shard) -> None:
        self.stage = shard.stage
        self.number = shard.number
        self.root = shard.root
        self.transport = shard.transport
        self.store = shard.store
        self.settings = shard.settings
        self.crash = shard.crash
        self.shard = shard
        self.sessions: dict[str, Session] = {}

    def resume(self) -> None:
        """Finishes what was begun in an earlier life, without a message to remind it."""
        self._publish(self.store.db)
        for directory in sorted(self.root.glob("clients/*")):
            if self.store.is_gone(directory.name):
                self._delete(directory.name)
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
            wanted = self._wanted(client, group)
            if wanted:
                self._handle_client(client, wanted)

    def fail(self, spec: Spec, reason: str) -> None:
        """Notes that the run failed here and tells its home."""
        where = f"{self.stage}.{self.number}: {reason}"
        log.error("client %s failed at %s", spec.client, where)
        report = control_message(spec, f"{self.stage}/{self.number}", Control.FAILED, reason=where)
        told = [(queue_name(HOME, spec.home), encode(report))]
        self.store.fail(spec.client, where, spec.expires, told)
        self._publish(self.store.db)

    def expire(self) -> None:
        """Buries the clients whose hard expiry has passed, and forgets old tombstones."""
        self.store.prune(self.shard.now())
        for path in self.shard.databases():
            spec = self._spec_in(path)
            if spec is not None and spec.expires <= self.shard.now():
                self._leave(control_message(spec, "gateway/none", Control.GONE, how="expired"))
        for client, expires in self.store.failed_until(self.shard.now()):
            self.store.bury(client, "expired", expires, [])
            self._delete(client)

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
            wanted = [message for message in wanted if message.kind is Kind.CONTROL]
        return wanted

    def _handle_client(self, client: str, messages: list[Message]) -> None:
        spec = messages[0].spec
        operator = dataset_named(spec.dataset).stage[self.stage].operator
        leave = next((m for m in messages if m.control in (Control.RELEASE, Control.GONE)), None)
        if leave is not None:
            self._leave(leave)
        elif issubclass(operator, Stateless):
            self._handle_stateless(operator, messages)
        else:
            self._handle_stateful(client, messages)

    def _handle_stateless(self, operator: type[Stateless], messages: list[Message]) -> None:
        """A pure function of each message: no database, ends are passed on as they are."""
        outgoing: list[tuple[str, bytes]] = []
        for message in messages:
            place = self._place(message.spec)
            if message.kind is Kind.END:
                end = encode(end_message(message.spec, place.sender, message.seq))
                outgoing += [(queue, end) for queue in place.receiving_queues()]
            elif message.kind is Kind.BATCH:
                output = operator(place).transform(message)
                outgoing += numbered_messages(
                    place.dataset, message.spec, place.sender, message.seq, message.digest, output
                )
        self.crash("computed")
        self._publish_now(outgoing)

    def _handle_stateful(self, client: str, messages: list[Message]) -> None:
        session = self._session(messages[0].spec)
        try:
            session.take(session.fitting(messages))
        except Conflict as conflict:
            self._forget_session(client)
            self.fail(session.place.spec, str(conflict))
            return
        self._carry_on(session)

    def _carry_on(self, session: Session) -> None:
        """Publishes what is committed, then makes and publishes the final output that is due."""
        self._publish(session.store.db)
        while session.finish_piece():
            self._publish(session.store.db)
            self.crash("final-published")

    def _leave(self, message: Message) -> None:
        """The client is gone: a tombstone first, then the others are told, then deletion."""
        gone = self._gone_messages(message) if message.control is Control.RELEASE else []
        how = str(message.data.get("how", "done"))
        self.store.bury(message.client, how, message.spec.expires, gone)
        self.crash("buried")
        self._publish(self.store.db)
        self._delete(message.client)
        self.crash("deleted")

    def _gone_messages(self, message: Message) -> list[tuple[str, bytes]]:
        spec = message.spec
        dataset = dataset_named(spec.dataset)
        sender = f"{self.stage}/{self.number}"
        gone = encode(control_message(spec, sender, Control.GONE, how=message.data.get("how")))
        return [
            (queue_name(stage.name, shard), gone)
            for stage in dataset.stages
            if stage.name != HOME
            for shard in dataset.shards_of(stage.name, spec)
        ]

    def _delete(self, client: str) -> None:
        self._forget_session(client)
        path = database_path(self.root, client, self.stage, self.number)
        delete_database(path)
        try:
            path.parent.rmdir()
        except OSError as error:
            # Other shards of this host may still have their databases of the client there.
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.EEXIST):
                raise

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
            session = Session(store, self._place(store.spec), self.crash)
            self.sessions[spec.client] = session
        return session

    def _spec_in(self, path: Path) -> Spec | None:
        session = self.sessions.get(path.parent.name)
        if session is not None:
            return session.place.spec
        store = ClientStore.open(path, synchronous=self.settings.synchronous)
        if store is None:
            return None
        store.close()
        return store.spec

    def _resume_client(self, client: str, path: Path) -> None:
        """One client whose work cannot be resumed must not keep the others waiting."""
        try:
            self._try_to_resume(client, path)
        except Exception as error:
            if is_environment(error):
                raise
            log.exception("%s: the work of %s cannot be resumed", self.shard.queue, client)
            session = self.sessions.get(client)
            self._forget_session(client)
            reason = f"cannot be resumed: {type(error).__name__}: {error}"
            if session is not None:
                self.fail(session.place.spec, reason)
            else:
                # Not even its spec can be read, so nobody can be told; the driver looks here.
                self.store.fail(client, reason, int(self.shard.now()) + UNREADABLE_SECONDS, [])

    def _try_to_resume(self, client: str, path: Path) -> None:
        store = ClientStore.open(path, synchronous=self.settings.synchronous)
        if store is None:
            # Killed while it was being made; the message that began it comes again.
            self._delete(client)
            return
        session = Session(store, self._place(store.spec), self.crash)
        self.sessions[client] = session
        self._carry_on(session)

    def _forget_session(self, client: str) -> None:
        session = self.sessions.pop(client, None)
        if session is not None:
            session.close()

    def _publish(self, db: sqlite3.Connection) -> None:
        """Everything in the outbox, confirmed; only then is it cleared."""
        if not outbox.waiting(db):
            return
        for count, chunk in enumerate(outbox.chunks(db, self.settings.publish_chunk)):
            if count:
                self.crash("partly-published")
            self.transport.publish([Outgoing(posted.queue, posted.body) for posted in chunk])
        self.crash("published")
        outbox.clear(db)
        self.crash("outbox-cleared")

    def _publish_now(self, messages: Iterable[tuple[str, bytes]]) -> None:
        outgoing = [Outgoing(queue, body) for queue, body in messages]
        chunk = self.settings.publish_chunk
        for start in range(0, len(outgoing), chunk):
            if start:
                self.crash("partly-published")
            self.transport.publish(outgoing[start : start + chunk])
        self.crash("published")
