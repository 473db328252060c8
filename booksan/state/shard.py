"""The database of a shard itself: which clients are gone or failed, and what it fights with."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from booksan.errors import StateError
from booksan.shards import ShardId
from booksan.state import outbox
from booksan.state.database import open_database, transaction
from booksan.transport.base import Outgoing
from booksan_common.files import make_directory, try_lock

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS tombstones (
        client TEXT PRIMARY KEY, how TEXT NOT NULL, until INTEGER NOT NULL,
        owner TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS failures (
        client TEXT PRIMARY KEY, reason TEXT NOT NULL, expires INTEGER NOT NULL,
        told INTEGER NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS letters (
        letter TEXT PRIMARY KEY, client TEXT NOT NULL, round INTEGER NOT NULL, open INTEGER NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS attempts (
        message TEXT PRIMARY KEY, tries INTEGER NOT NULL, error TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS in_hand (
        message TEXT PRIMARY KEY, takes INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS life (one INTEGER PRIMARY KEY CHECK (one = 1), clean INTEGER)",
    # Of clients that were begun anew: which time this is.
    """CREATE TABLE IF NOT EXISTS generations (
        client TEXT PRIMARY KEY, generation INTEGER NOT NULL
    ) WITHOUT ROWID""",
    *outbox.SCHEMA,
)

#: What the home is told, by the round of a letter: how often it has failed.
Report = Callable[[int], list[Outgoing]]

#: Seconds past a run's hard expiry for which a shard waits for the word of the run's home before it
#: deletes what it has: clocks may differ, and only the home decides.
EXPIRY_MARGIN = 24 * 3600
#: Seconds that a tombstone outlives the run's hard expiry: longer than any shard works for it.
TOMBSTONE_MARGIN = 2 * EXPIRY_MARGIN


def lock_shard(root: Path, stage: str, shard: int) -> int:
    """Makes sure that only one process works as this shard; the lock dies with the process."""
    directory = root / "shards"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{ShardId(stage, shard).file_name}.lock"
    lock = try_lock(path, 0o644)
    if lock is None:
        raise StateError(
            f"{ShardId(stage, shard)} is being worked on by another process (lock {path}); "
            "stop it first"
        )
    return lock


class ShardStore:
    def __init__(self, root: Path, stage: str, shard: int, *, synchronous: str = "FULL") -> None:
        path = root / "shards" / f"{ShardId(stage, shard).file_name}.db"
        make_directory(path.parent, within=root)
        try:
            self.db: sqlite3.Connection = open_database(path, synchronous=synchronous)
            self._load()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise StateError(
                f"{path} is damaged ({error}). It says which clients are gone: restore it, or "
                "delete it while no client's run is unfinished on this host"
            ) from error

    def _load(self) -> None:
        with transaction(self.db):
            for statement in SCHEMA:
                self.db.execute(statement)
            self._upgrade()
        self._gone = {row[0] for row in self.db.execute("SELECT client FROM tombstones")}
        self._failed = {row[0] for row in self.db.execute("SELECT client FROM failures")}
        self._generations: dict[str, int] = dict(
            self.db.execute("SELECT client, generation FROM generations")
        )
        #: Clients that failed here, and why, of which no home has heard yet.
        self.untold = dict(self.db.execute("SELECT client, reason FROM failures WHERE NOT told"))
        #: Dead letters that were not replayed yet.
        self.open_letters = {
            row[0] for row in self.db.execute("SELECT letter FROM letters WHERE open")
        }

    def close(self) -> None:
        self.db.close()

    def _upgrade(self) -> None:
        """A database that was made before tombstones told whose they are."""
        columns = {row[1] for row in self.db.execute("PRAGMA table_info(tombstones)")}
        if "owner" not in columns:
            import sqlite_utils

            tombstones = sqlite_utils.Database(self.db).table("tombstones")
            tombstones.add_column("owner", str, not_null_default="")

    def is_gone(self, client: str) -> bool:
        return client in self._gone

    def is_failed(self, client: str) -> bool:
        return client in self._failed

    def generation(self, client: str) -> int:
        """How often the client was begun anew, as far as this shard has heard."""
        return self._generations.get(client, 0)

    def begin_generation(self, client: str, generation: int) -> None:
        """From now on everything of an earlier generation is late, its failure too."""
        with transaction(self.db):
            self.db.execute(
                "INSERT OR REPLACE INTO generations VALUES (?, ?)", (client, generation)
            )
            self.db.execute("DELETE FROM failures WHERE client = ?", (client,))
        self._generations[client] = generation
        self._failed.discard(client)
        self.untold.pop(client, None)

    def failure(self, client: str) -> str | None:
        """Why the client's run has failed for good, if it did so here."""
        row = self.db.execute("SELECT reason FROM failures WHERE client = ?", (client,)).fetchone()
        return row[0] if row else None

    def leave_tombstone(
        self,
        client: str,
        how: str,
        expires: int,
        gone: list[Outgoing],
        owner: str = "",
    ) -> None:
        """The tombstone and the messages that tell others commit together."""
        with transaction(self.db):
            self.db.execute(
                "INSERT OR IGNORE INTO tombstones VALUES (?, ?, ?, ?)",
                (client, how, expires + TOMBSTONE_MARGIN, owner),
            )
            self.db.execute("DELETE FROM failures WHERE client = ?", (client,))
            self.db.execute("DELETE FROM generations WHERE client = ?", (client,))
            outbox.post(self.db, gone)
        self._gone.add(client)
        self._generations.pop(client, None)
        self._failed.discard(client)
        self.untold.pop(client, None)

    def fail(self, client: str, reason: str, expires: int, report: list[Outgoing] | None) -> None:
        """From now on the client's messages are dropped here; None: nobody can be told yet."""
        with transaction(self.db):
            self.db.execute(
                """INSERT INTO failures VALUES (?, ?, ?, ?)
                   ON CONFLICT (client) DO UPDATE SET told = max(told, excluded.told)""",
                (client, reason, expires, report is not None),
            )
            outbox.post(self.db, report or [])
        self._failed.add(client)
        if report is None:
            self.untold[client] = reason
        else:
            self.untold.pop(client, None)

    def open_letter(self, letter: str, client: str, report: Report) -> None:
        """A message became a dead letter, maybe again; what the home is told commits with it."""
        with transaction(self.db):
            row = self.db.execute(
                """INSERT INTO letters VALUES (?, ?, 1, 1)
                   ON CONFLICT (letter) DO UPDATE SET round = round + 1, open = 1
                   RETURNING round""",
                (letter, client),
            ).fetchone()
            outbox.post(self.db, report(int(row[0])))
        self.open_letters.add(letter)

    def close_letter(self, letter: str, report: Report) -> None:
        """A replayed letter was handled; its round stays, in case that it comes back."""
        with transaction(self.db):
            row = self.db.execute(
                "UPDATE letters SET open = 0 WHERE letter = ? RETURNING round", (letter,)
            ).fetchone()
            outbox.post(self.db, report(int(row[0])))
        self.open_letters.discard(letter)

    def rounds_of(self, client: str) -> list[tuple[str, int, bool]]:
        """(letter, round, whether it is open) of all letters that the client has or had here."""
        sql = "SELECT letter, round, open FROM letters WHERE client = ? ORDER BY letter"
        return [(letter, n, bool(open)) for letter, n, open in self.db.execute(sql, (client,))]

    def letters_of(self, client: str) -> list[str]:
        rows = self.db.execute("SELECT letter FROM letters WHERE client = ?", (client,))
        return [row[0] for row in rows]

    def closed_letters(self) -> list[str]:
        return [row[0] for row in self.db.execute("SELECT letter FROM letters WHERE NOT open")]

    def clients_with_letters(self) -> set[str]:
        return {row[0] for row in self.db.execute("SELECT DISTINCT client FROM letters")}

    def forget_letters(self, client: str) -> None:
        """After their files are removed."""
        letters = self.letters_of(client)
        if letters:
            self.db.execute("DELETE FROM letters WHERE client = ?", (client,))
            self.open_letters.difference_update(letters)

    def failed_until(self, now: float) -> list[tuple[str, int]]:
        """Failed clients whose hard expiry has passed, with that expiry."""
        return self.db.execute(
            "SELECT client, expires FROM failures WHERE expires <= ?", (now,)
        ).fetchall()

    def how_gone(self, client: str) -> str | None:
        row = self.db.execute("SELECT how FROM tombstones WHERE client = ?", (client,)).fetchone()
        return row[0] if row else None

    def prune(self, now: float) -> None:
        """Forgets tombstones that no message can need any more."""
        with transaction(self.db):
            self.db.execute("DELETE FROM tombstones WHERE until < ?", (now,))
        self._gone = {row[0] for row in self.db.execute("SELECT client FROM tombstones")}

    def count_attempt(self, message: str, error: str) -> int:
        """How often this message has now failed when handled alone."""
        with transaction(self.db):
            row = self.db.execute(
                """INSERT INTO attempts VALUES (?, 1, ?)
                   ON CONFLICT (message) DO UPDATE SET tries = tries + 1, error = excluded.error
                   RETURNING tries""",
                (message, error),
            ).fetchone()
        return int(row[0])

    def forget_attempts(self, message: str) -> None:
        with transaction(self.db):
            self.db.execute("DELETE FROM attempts WHERE message = ?", (message,))

    def take_in_hand(self, what: str, weight: int = 1, *, instead_of: str = "") -> int:
        """Notes what is about to be handled alone; how many deaths in a row it has caused.

        `weight`: how many the last death counts for, if this was in hand then. `instead_of`: what
        else begins like this is forgotten, because it was got over.
        """
        with transaction(self.db):
            if instead_of:
                self.db.execute(
                    "DELETE FROM in_hand WHERE message != ? AND substr(message, 1, ?) = ?",
                    (what, len(instead_of), instead_of),
                )
            row = self.db.execute(
                """INSERT INTO in_hand VALUES (?, 1)
                   ON CONFLICT (message) DO UPDATE SET takes = takes + ? RETURNING takes""",
                (what, weight),
            ).fetchone()
        return int(row[0]) - 1

    def put_down(self, message: str) -> None:
        """It was handled, or was kept from it by no fault of its own: counting begins anew."""
        with transaction(self.db):
            self.db.execute("DELETE FROM in_hand WHERE message = ?", (message,))

    def begin_life(self) -> bool:
        """Marks the worker as running; True if the last one did not end in order."""
        with transaction(self.db):
            row = self.db.execute("SELECT clean FROM life").fetchone()
            self.db.execute("INSERT OR REPLACE INTO life VALUES (1, 0)")
        return bool(row and not row[0])

    def end_life(self) -> None:
        with transaction(self.db):
            self.db.execute("INSERT OR REPLACE INTO life VALUES (1, 1)")
