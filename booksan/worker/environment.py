"""Telling trouble with the machine from trouble with a message."""

import sqlite3

from booksan.errors import NoSpace, TransportError

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
