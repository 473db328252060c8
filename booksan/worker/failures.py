"""Trouble: of the machine or of a message; dead letters; runs that fail, and who is told."""

import json
import logging
import sqlite3
import time
from pathlib import Path
from typing import Any

from booksan.errors import MessageError, NoSpace, TransportError
from booksan.logs import of_client
from booksan.messages import Control, control_message, decode, digest_of, encode
from booksan.shards import ShardId, queue_name
from booksan.spec import HOME, Spec
from booksan.transport.base import Outgoing
from booksan.worker.session import Publisher
from booksan.worker.shard import Shard
from booksan_common.files import make_directory, write_atomically

# Telling trouble with the machine from trouble with a message.

#: SQLite's primary result codes that tell of the machine and never of a message.
_SQLITE_ENVIRONMENT = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
}


def is_environment(error: BaseException) -> bool:
    """A full disk, a lost connection, a busy database: they say nothing about what is in hand."""
    if isinstance(error, sqlite3.OperationalError):
        # The primary result code is in the low byte of the extended one.
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_ENVIRONMENT
    return isinstance(error, NoSpace | TransportError | OSError | MemoryError)


# Dead letters: messages that could not be handled, kept with their error until a person looks.


def letter_id(body: bytes) -> str:
    return digest_of(body)


def letter_path(root: Path, stage: str, shard: int, letter: str) -> Path:
    return root / "letters" / ShardId(stage, shard).file_name / f"{letter}.msg"


def keep_letter(
    root: Path, stage: str, shard: int, body: bytes, error: str, traceback: str = ""
) -> Path:
    """Both files are durable before the message may be acknowledged; doing it twice is harmless."""
    path = letter_path(root, stage, shard, letter_id(body))
    make_directory(path.parent, within=root)
    write_atomically(path, body)
    about = {"stage": stage, "shard": shard, "error": error, "time": int(time.time())}
    about |= {"traceback": traceback} | _contents(body)
    write_atomically(path.with_suffix(".json"), json.dumps(about, indent=2).encode())
    return path


def letter_error(root: Path, stage: str, shard: int, letter: str) -> str:
    """Why it could not be handled; a person may have removed what told it."""
    path = letter_path(root, stage, shard, letter).with_suffix(".json")
    try:
        return str(json.loads(path.read_text())["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return "its error was not kept"


def remove_letter(root: Path, stage: str, shard: int, letter: str) -> None:
    """The message goes last, so that what is listed can be shown."""
    path = letter_path(root, stage, shard, letter)
    path.with_suffix(".json").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _contents(body: bytes) -> dict[str, Any]:
    try:
        message = decode(body)
    except MessageError:
        return {"client": None}
    return {
        "client": message.client,
        "sender": message.sender,
        "kind": message.kind.value,
        "seq": message.seq,
    }


# Runs that cannot give their answers: what the shard notes, and what it tells their home.
#
# A contradiction is final: from then on the shard drops the client's messages. A dead letter is
# not: the shard goes on with all other messages, so that the letter can be replayed after a fix,
# and the home forgets the failure when it was handled.

log = logging.getLogger("booksan.worker")

#: Dead letters of one client at one shard; past that it is the client, not the message.
MAX_LETTERS = 20
#: Seconds that a database which cannot be read is kept for a person to look at.
UNREADABLE_SECONDS = 7 * 24 * 3600


class Failures:
    def __init__(self, shard: Shard, publisher: Publisher) -> None:
        self._shard = shard
        self._store = shard.store
        self._publisher = publisher

    def fail(self, spec: Spec, reason: str) -> None:
        """For good: the client's messages are dropped here, and its home knows why."""
        where = self._at(reason)
        log.error("the run failed: %s", where, extra=of_client(spec.client))
        report = self._report(spec, Control.FAILED, "", 1, reason=where)
        self._store.fail(spec.client, where, spec.expires, report)
        self._publisher.publish(self._store.db)

    def fail_unread(self, client: str, reason: str) -> None:
        """Not even its spec can be read, so its home is told when the next message brings it."""
        log.error("the run failed: %s", self._at(reason), extra=of_client(client))
        expires = int(self._shard.now()) + UNREADABLE_SECONDS
        self._store.fail(client, self._at(reason), expires, None)

    def tell(self, spec: Spec) -> None:
        """Tells the home of a failure that it could not be told of before."""
        reason = self._store.untold.get(spec.client)
        if reason is not None:
            report = self._report(spec, Control.FAILED, "", 1, reason=reason)
            self._store.fail(spec.client, reason, spec.expires, report)
            self._publisher.publish(self._store.db)

    def refuse(self, spec: Spec, reason: str) -> None:
        """Its messages are not taken, though nothing is noted here; its home knows why."""
        log.error("its messages are dropped: %s", reason, extra=of_client(spec.client))
        self._publisher.publish_now(
            self._report(spec, Control.FAILED, "", 1, reason=self._at(reason))
        )

    def repeat(self, spec: Spec) -> None:
        """Tells the home once more all that it may not have heard."""
        client = spec.client
        reports = []
        reason = self._store.failure(client)
        if reason is not None:
            reports += self._report(spec, Control.FAILED, "", 1, reason=reason)
        for letter, round, open in self._store.rounds_of(client):
            if open:
                where = self._at(f"dead letter: {self._error_of(letter)}")
                reports += self._report(spec, Control.FAILED, letter, round, reason=where)
            else:
                reports += self._report(spec, Control.FORGIVEN, letter, round)
        if reports:
            self._publisher.publish_now(reports)

    def open_letter(self, spec: Spec, letter: str, reason: str) -> None:
        """Until the letter is replayed, the run has failed."""
        where = self._at(f"dead letter: {reason}")
        log.error("the run failed: %s", where, extra=of_client(spec.client))
        self._store.open_letter(
            letter,
            spec.client,
            lambda round: self._report(spec, Control.FAILED, letter, round, reason=where),
        )
        self._publisher.publish(self._store.db)
        if len(self._store.letters_of(spec.client)) > MAX_LETTERS:
            self.fail(spec, f"more than {MAX_LETTERS} dead letters")

    def forgive(self, spec: Spec, letter: str) -> None:
        """A replayed letter was handled: its home is told, and the letter goes."""
        self._store.close_letter(
            letter, lambda round: self._report(spec, Control.FORGIVEN, letter, round)
        )
        self._publisher.publish(self._store.db)
        self.remove_letter(letter)

    def remove_letter(self, letter: str) -> None:
        remove_letter(self._shard.root, self._shard.stage, self._shard.number, letter)

    def _error_of(self, letter: str) -> str:
        shard = self._shard
        return letter_error(shard.root, shard.stage, shard.number, letter)

    def _at(self, reason: str) -> str:
        return f"{self._shard.queue}: {reason}"

    def _report(
        self, spec: Spec, control: Control, letter: str, round: int, **data: str
    ) -> list[Outgoing]:
        message = control_message(
            spec, self._shard.sender, control, letter=letter, round=round, **data
        )
        return [Outgoing(queue_name(HOME, spec.home), encode(message))]
