"""Opening SQLite databases the one way that booksan uses them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

#: Seconds that a writer waits for a reader's checkpoint lock; there is never a second writer.
BUSY_SECONDS = 30.0


def open_database(path: Path, *, synchronous: str = "FULL") -> sqlite3.Connection:
    """A connection for the one process that writes this database."""
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {synchronous}")
        db.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that can only look; raises sqlite3.OperationalError if there is nothing."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS, isolation_level=None
    )


def has_table(db: sqlite3.Connection, name: str) -> bool:
    """Or a view."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def check_database(path: Path) -> None:
    """Raises sqlite3.DatabaseError if SQLite finds that it is not whole."""
    with closing(open_reader(path)) as db:
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)


@contextmanager
def transaction(db: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """From here to COMMIT; whatever is raised inside rolls everything back.

    With `BEGIN` alone nobody is kept out, and all that is read is of one moment.
    """
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # SQLite may have rolled back by itself already, for instance on a full disk.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def delete_database(path: Path) -> None:
    """The database itself goes last, so that a deletion that was cut short is found again."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
