"""Clients that leave: a tombstone first, then the others are told, then theirs is deleted.

Only the home of a client decides that its time is over. Another shard waits for the home's word,
and goes by its own clock only long after that; a clock that has just jumped decides nothing.
"""

import errno
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from booksan import news
from booksan.datasets import dataset_named
from booksan.errors import MessageError, UsageError
from booksan.heartbeat import beat
from booksan.logs import of_client
from booksan.messages import Control, Message, control_message, decode, encode
from booksan.shards import queue_name
from booksan.spec import HOME, Spec
from booksan.state.client import ClientStore, database_path
from booksan.state.database import delete_database
from booksan.state.shard import EXPIRY_MARGIN
from booksan.transport.base import Outgoing
from booksan.worker.failures import Failures, is_environment, letter_path
from booksan.worker.session import Publisher
from booksan.worker.shard import Shard

log = logging.getLogger("booksan.worker")


class Cleanup:
    def __init__(
        self,
        shard: Shard,
        publisher: Publisher,
        failures: Failures,
        forget_session: Callable[[str], None],
    ) -> None:
        self._shard = shard
        self._store = shard.store
        self._publisher = publisher
        self._failures = failures
        self._forget_session = forget_session
        #: Seconds past a run's expiry at which it ends here, with or without a word of its home.
        self._margin = 0 if shard.stage == HOME else EXPIRY_MARGIN
        #: When each client ends here at the latest; its database need not be opened to know it.
        self._ends: dict[str, float] = {}

    def leave(self, message: Message) -> None:
        """The client is gone. Only its home gets RELEASE messages, and tells the others."""
        gone = self._gone_messages(message) if message.control is Control.RELEASE else []
        how = str(message.data.get("how", "done"))
        spec = message.spec
        self._store.leave_tombstone(spec.client, how, spec.expires, gone, spec.owner)
        if self._shard.stage == HOME:
            news.of_run(spec, news.GONE, reason=how)
        self._shard.crash("buried")
        self._publisher.publish(self._store.db)
        self.delete(message.client)
        self._shard.crash("deleted")

    def restart(self, client: str, generation: int) -> None:
        """The client was begun anew: all that is here of earlier times goes, failures too."""
        log.warning("is begun anew, generation %d", generation, extra=of_client(client))
        self._store.begin_generation(client, generation)
        self.delete(client)

    def resume(self) -> None:
        """Deletions that an earlier life did not finish."""
        for letter in self._store.closed_letters():
            self._failures.remove_letter(letter)
        self._sweep()

    def note_end(self, store: ClientStore) -> int | None:
        """Notes when the client ends at the latest; since when it may be idle, if it may."""
        spec = store.spec
        since = store.idle_since() if self._shard.stage == HOME and spec.idle else None
        if since is None:
            self._ends[spec.client] = spec.expires + self._margin
        return since

    def expire(self) -> None:
        """Buries whoever is past its expiry or has stopped uploading; forgets old tombstones."""
        self._sweep()
        if not self._shard.clock.settled:
            return
        now = self._shard.now()
        self._store.prune(now)
        for path in self._shard.databases():
            self._expire_client(path, now)
        for client in sorted(self._store.clients_with_letters()):
            spec = self._spec_of_letters(client)
            if spec is not None and self.is_over(spec, now):
                self.leave(self._expired(spec))
        for client, expires in self._store.failed_until(now - self._margin):
            self._store.leave_tombstone(client, "expired", expires, [])
            self.delete(client)

    def is_over(self, spec: Spec, now: float) -> bool:
        return spec.expires + self._margin <= now

    def delete(self, client: str) -> None:
        for letter in self._store.letters_of(client):
            self._failures.remove_letter(letter)
        self._store.forget_letters(client)
        self.delete_state(client)

    def delete_state(self, client: str) -> None:
        """Only the database: letters stay, for they can be replayed."""
        self._forget_session(client)
        self._ends.pop(client, None)
        path = database_path(self._shard.root, client, self._shard.stage, self._shard.number)
        delete_database(path)
        try:
            path.parent.rmdir()
        except OSError as error:
            # Other shards of this host may still have their databases of the client there.
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.EEXIST):
                raise

    def unreadable(self, client: str, error: Exception) -> None:
        """The trouble of one client is that client's, and stops neither the shard nor its host."""
        self._forget_session(client)
        if not self._store.is_failed(client):
            self._failures.fail_unread(client, f"cannot be read: {error}")

    def _sweep(self) -> None:
        """What is left of clients that are gone: by a kill, or by a reader that came too late."""
        found = {directory.name for directory in self._shard.root.glob("clients/*")}
        for client in sorted(found | self._store.clients_with_letters()):
            if self._store.is_gone(client):
                self.delete(client)

    def _expire_client(self, path: Path, now: float) -> None:
        beat()
        client = path.parent.name
        if self._ends.get(client, now) > now:
            return
        try:
            overdue = self._overdue(path, now)
        except (sqlite3.DatabaseError, MessageError) as error:
            if is_environment(error):
                raise
            self.unreadable(client, error)
        else:
            if overdue is not None:
                self.leave(overdue)

    def _overdue(self, path: Path, now: float) -> Message | None:
        """The word to leave for a client whose time is over."""
        store = ClientStore.open(path, synchronous=self._shard.settings.synchronous)
        if store is None:
            return None
        with closing(store):
            spec = store.spec
            if self.is_over(spec, now):
                return self._expired(spec)
            since = self.note_end(store)
            if since is not None and since + spec.idle <= now:
                return control_message(spec, "gateway/none", Control.RELEASE, how="idle")
        return None

    def _expired(self, spec: Spec) -> Message:
        """The home tells the others; all others have waited for that in vain."""
        control = Control.RELEASE if self._shard.stage == HOME else Control.GONE
        return control_message(spec, "gateway/none", control, how="expired")

    def _spec_of_letters(self, client: str) -> Spec | None:
        """Of a client that has letters here and no database, which would tell its expiry."""
        shard = self._shard
        if database_path(shard.root, client, shard.stage, shard.number).exists():
            return None
        for letter in self._store.letters_of(client):
            path = letter_path(shard.root, shard.stage, shard.number, letter)
            # A person may have removed it.
            with suppress(FileNotFoundError, MessageError):
                return decode(path.read_bytes()).spec
        return None

    def _gone_messages(self, message: Message) -> list[Outgoing]:
        spec = message.spec
        data = {"how": message.data.get("how")}
        gone = encode(control_message(spec, self._shard.sender, Control.GONE, **data))
        return [
            Outgoing(queue_name(stage, shard), gone)
            for stage in spec.shards
            if stage != HOME
            for shard in _shards_of(spec, stage)
        ]


def _shards_of(spec: Spec, stage: str) -> tuple[int, ...]:
    """Those that work for the client; all that may, if the data set is not there any more."""
    try:
        return dataset_named(spec.dataset).shards_of(stage, spec)
    except (UsageError, KeyError):
        return tuple(range(spec.shards[stage]))
