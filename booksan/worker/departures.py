"""Clients that leave: a tombstone first, then the others are told, then theirs is deleted."""

import errno
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from booksan.errors import MessageError
from booksan.messages import Control, Message, control_message, decode, encode
from booksan.spec import HOME, Spec
from booksan.stages.datasets import dataset_named
from booksan.stages.graph import queue_name
from booksan.state.client import ClientStore, database_path
from booksan.state.database import delete_database
from booksan.worker.environment import is_environment
from booksan.worker.failures import Failures
from booksan.worker.letters import letter_path
from booksan.worker.publisher import Publisher
from booksan.worker.shard import Shard


class Departures:
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

    def leave(self, message: Message) -> None:
        """The client is gone. Only its home gets RELEASE messages, and tells the others."""
        gone = self._gone_messages(message) if message.control is Control.RELEASE else []
        how = str(message.data.get("how", "done"))
        self._store.bury(message.client, how, message.spec.expires, gone)
        self._shard.crash("buried")
        self._publisher.publish(self._store.db)
        self.delete(message.client)
        self._shard.crash("deleted")

    def resume(self) -> None:
        """Deletions that an earlier life did not finish."""
        self._sweep()
        for letter in self._store.closed_letters():
            self._failures.remove_letter(letter)

    def expire(self) -> None:
        """Buries whoever is past its expiry or has stopped uploading; forgets old tombstones."""
        now = self._shard.now()
        self._store.prune(now)
        self._sweep()
        for path in self._shard.databases():
            overdue = self._overdue(path, now)
            if overdue is not None:
                self.leave(overdue)
        for client in sorted(self._store.clients_with_letters()):
            spec = self._spec_of_letters(client)
            if spec is not None and spec.expires <= now:
                self.leave(control_message(spec, "gateway/none", Control.GONE, how="expired"))
        for client, expires in self._store.failed_until(now):
            self._store.bury(client, "expired", expires, [])
            self.delete(client)

    def delete(self, client: str) -> None:
        for letter in self._store.letters_of(client):
            self._failures.remove_letter(letter)
        self._store.forget_letters(client)
        self.delete_state(client)

    def delete_state(self, client: str) -> None:
        """Only the database: letters stay, for they can be replayed."""
        self._forget_session(client)
        path = database_path(self._shard.root, client, self._shard.stage, self._shard.number)
        delete_database(path)
        try:
            path.parent.rmdir()
        except OSError as error:
            # Other shards of this host may still have their databases of the client there.
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.EEXIST):
                raise

    def _sweep(self) -> None:
        """What is left of clients that are gone: by a kill, or by a reader that came too late."""
        found = {directory.name for directory in self._shard.root.glob("clients/*")}
        for client in sorted(found | self._store.clients_with_letters()):
            if self._store.is_gone(client):
                self.delete(client)

    def _overdue(self, path: Path, now: float) -> Message | None:
        """The word to leave for a client whose time is over."""
        store = self._open(path)
        if store is None:
            return None
        with closing(store):
            spec = store.spec
            if spec.expires <= now:
                return control_message(spec, "gateway/none", Control.GONE, how="expired")
            if self._shard.stage == HOME and spec.idle:
                since = store.idle_since()
                if since is not None and since + spec.idle <= now:
                    return control_message(spec, "gateway/none", Control.RELEASE, how="idle")
        return None

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

    def _open(self, path: Path) -> ClientStore | None:
        """One database that cannot be read must not stop the shard."""
        try:
            return ClientStore.open(path, synchronous=self._shard.settings.synchronous)
        except (sqlite3.DatabaseError, MessageError) as error:
            if is_environment(error):
                raise
            client = path.parent.name
            if not self._store.is_failed(client):
                self._forget_session(client)
                self._failures.fail_unread(client, f"cannot be read: {error}")
            return None

    def _gone_messages(self, message: Message) -> list[tuple[str, bytes]]:
        spec = message.spec
        dataset = dataset_named(spec.dataset)
        sender = f"{self._shard.stage}/{self._shard.number}"
        gone = encode(control_message(spec, sender, Control.GONE, how=message.data.get("how")))
        return [
            (queue_name(stage.name, shard), gone)
            for stage in dataset.stages
            if stage.name != HOME
            for shard in dataset.shards_of(stage.name, spec)
        ]
