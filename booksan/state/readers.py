"""Readers of state: how far each stage is with a client, and which clients are unfinished."""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from booksan.errors import MessageError
from booksan.shards import ShardId
from booksan.spec import HOME, Spec, spec_from_json
from booksan.state.client import ENDED
from booksan.state.database import has_table, open_reader

# How far each stage is with a client, read from the stages' own databases.


@dataclass(frozen=True)
class StreamProgress:
    """The view `progress` of a database: one stream of one shard."""

    client: str
    stage: str
    shard: int
    sender: str
    batches: int
    of_batches: int | None
    phase: str
    rows: int
    bytes: int
    #: Messages that are committed and not published yet.
    outbox: int
    #: Unix seconds of its last change.
    moved: int = 0

    @property
    def complete(self) -> bool:
        return self.batches == self.of_batches


def clients(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "clients").glob("*") if path.is_dir())


def progress(root: Path, client: str) -> Iterator[StreamProgress]:
    """Every stream of every shard on this host.

    Databases that come or go meanwhile are skipped, and damaged ones: `failures` names those.
    """
    for path in _databases(root, client):
        try:
            rows = _read(path, "SELECT * FROM progress")
        except sqlite3.DatabaseError:
            continue
        for row in rows:
            yield StreamProgress(
                client=client,
                stage=row["stage"],
                shard=int(row["shard"]),
                sender=row["sender"],
                batches=row["batches"],
                of_batches=row["of_batches"],
                phase=row["phase"],
                rows=row["rows"],
                bytes=row["bytes"],
                outbox=row["outbox"],
                moved=row["moved"],
            )


def failures(root: Path, client: str) -> list[str]:
    """Why the client's run has failed on this host, as its shards noted it or its files show it."""
    reasons = []
    for path in sorted((root / "shards").glob("*.db")):
        try:
            rows = _read(path, "SELECT reason FROM failures WHERE client = ?", client)
        except sqlite3.DatabaseError:
            # Just being made, or broken; in the latter case its worker says so itself.
            continue
        reasons += [str(row["reason"]) for row in rows]
    return reasons + [
        f"{path.stem}: the database of {client} is damaged: {damage}"
        for path in _databases(root, client)
        if (damage := _damage(path))
    ]


def _damage(path: Path) -> str | None:
    try:
        _read(path, "SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        return None
    except sqlite3.DatabaseError as error:
        return str(error)
    return None


#: Ranges of missing numbers that are named at once; who fills them asks again.
MAX_RANGES = 10_000


def gap_ranges(numbers: Iterable[int], top: int) -> Iterator[tuple[int, int]]:
    """(first, last) of all runs of numbers below `top` that are not among these, in order."""
    expected = 0
    for number in numbers:
        if number > expected and expected < top:
            yield expected, min(number, top) - 1
        expected = number + 1
    if expected < top:
        yield expected, top - 1


def first_gaps(numbers: Iterable[int], top: int, most: int = 10) -> list[int]:
    """The first numbers below `top` that are not among these, which come in ascending order."""
    ranges = gap_ranges(numbers, top)
    return list(islice((n for first, last in ranges for n in range(first, last + 1)), most))


def missing_ranges(root: Path, stream: StreamProgress) -> tuple[list[tuple[int, int]], int]:
    """The batch numbers that a stream lacks, and the number from which on it knows nothing."""
    sql = "SELECT seq FROM dedup WHERE sender = ? ORDER BY seq"
    known = [row["seq"] for row in _read(_path(root, stream), sql, stream.sender)]
    top = stream.of_batches if stream.of_batches is not None else max(known, default=-1) + 1
    return list(islice(gap_ranges(known, top), MAX_RANGES)), top


def missing_numbers(root: Path, stream: StreamProgress, most: int = 10) -> list[int]:
    """The first batch numbers that a stream lacks."""
    ranges, _ = missing_ranges(root, stream)
    return list(islice((n for first, last in ranges for n in range(first, last + 1)), most))


def recorded(root: Path, stream: StreamProgress) -> int:
    """Different batches of a stream that dedup knows; the stream's own count must be the same."""
    sql = "SELECT count(*) AS count FROM dedup WHERE sender = ?"
    return int(_read(_path(root, stream), sql, stream.sender)[0]["count"])


# Of one client's database, for those who have it open.


class Upload(NamedTuple):
    """The stream of a source from the gateways."""

    source: str
    batches: int
    #: Known once the end came.
    of_batches: int | None
    #: The first batch numbers that are missing below the highest that came, or below the end.
    missing: tuple[int, ...]


def uploads(db: sqlite3.Connection) -> list[Upload]:
    streams = db.execute(
        """SELECT input, received, length, ifnull(length, highest + 1), sender FROM streams
           WHERE sender LIKE 'gateway/%'"""
    ).fetchall()
    return [
        Upload(source, received, length, () if received == top else _missing(db, sender, top))
        for source, received, length, top, sender in streams
    ]


def _missing(db: sqlite3.Connection, sender: str, top: int) -> tuple[int, ...]:
    numbers = db.execute("SELECT seq FROM dedup WHERE sender = ? ORDER BY seq", (sender,))
    return tuple(first_gaps((seq for (seq,) in numbers), top))


def inputs(db: sqlite3.Connection) -> dict[str, bool]:
    """Each input, and whether it has arrived completely."""
    found = db.execute("SELECT input, complete FROM inputs")
    return {name: bool(complete) for name, complete in found}


def all_meta(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT key, value FROM meta"))


def _databases(root: Path, client: str) -> list[Path]:
    return sorted((root / "clients" / client).glob("*.db"))


def _path(root: Path, stream: StreamProgress) -> Path:
    return root / "clients" / stream.client / f"{ShardId(stream.stage, stream.shard).file_name}.db"


def _read(path: Path, sql: str, *values: object) -> list[sqlite3.Row]:
    db = open_reader(path)
    try:
        db.row_factory = sqlite3.Row
        return db.execute(sql, values).fetchall()
    finally:
        db.close()


@dataclass(frozen=True)
class DatabaseSize:
    """One database of a client: its bytes on disk, and the rows of each of its tables."""

    client: str
    name: str
    bytes: int
    rows: dict[str, int]


def sizes(root: Path, client: str) -> Iterator[DatabaseSize]:
    import sqlite_utils

    for path in sorted((root / "clients" / client).glob("*.db")):
        try:
            db = open_reader(path)
        except sqlite3.DatabaseError:
            continue
        try:
            tables = sqlite_utils.Database(db)
            rows = {name: tables[name].count for name in tables.table_names()}
        except sqlite3.DatabaseError:
            continue
        finally:
            db.close()
        files = (path, path.with_name(f"{path.name}-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        yield DatabaseSize(client, path.stem, size, rows)


# The clients that the shards in a data directory still work for.


class Unfinished(NamedTuple):
    client: str
    shard: ShardId
    #: What it was begun with; None if its database cannot be read.
    spec: Spec | None = None
    #: Nothing is left to compute: its answers are complete, or passed on, or it has failed.
    computed: bool = False


def unfinished_clients(data_dir: Path) -> list[Unfinished]:
    """All but those that are gone or past their expiry; what cannot be read counts too."""
    now = time.time()
    found = []
    for path in sorted(data_dir.glob("clients/*/*.db")):
        stage, _, number = path.stem.rpartition("-")
        if not stage or not number.isdecimal():
            continue
        one = _held(path, Unfinished(path.parent.name, ShardId(stage, int(number))))
        if one is None or _is_in_shard(data_dir, one, "tombstones"):
            continue
        if one.spec is None or one.spec.expires > now:
            failed = _is_in_shard(data_dir, one, "failures")
            found.append(one._replace(computed=one.computed or failed))
    return found


def _held(path: Path, one: Unfinished) -> Unfinished | None:
    """None for a database that was never completely made: it begins anew with the message that
    comes again."""
    try:
        with closing(open_reader(path)) as db:
            if not has_table(db, "meta"):
                return None
            meta = all_meta(db)
            spec = spec_from_json(meta["spec"])
            return one._replace(spec=spec, computed=_is_computed(db, one.shard.stage, meta))
    except (sqlite3.Error, MessageError, KeyError):
        return one if path.exists() else None


def _is_computed(db: sqlite3.Connection, stage: str, meta: dict[str, str]) -> bool:
    if db.execute("SELECT 1 FROM outbox LIMIT 1").fetchone():
        return False
    if stage == HOME:
        return all(inputs(db).values())
    return meta["phase"] == ENDED


def shard_row(
    data_dir: Path, shard: ShardId, client: str, table: str, column: str = "client"
) -> str | None:
    """What the shard's own database says of the client; None also before it is made."""
    path = data_dir / "shards" / f"{shard.file_name}.db"
    if not path.exists():
        return None
    with closing(open_reader(path)) as db:
        if column not in {row[1] for row in db.execute(f"PRAGMA table_info({table})")}:
            # Just being made, or made by an earlier version.
            return None
        sql = f"SELECT {column} FROM {table} WHERE client = ?"
        row = db.execute(sql, (client,)).fetchone()
        return str(row[0]) if row else None


def _is_in_shard(data_dir: Path, one: Unfinished, table: str) -> bool:
    try:
        return shard_row(data_dir, one.shard, one.client, table) is not None
    except sqlite3.Error:
        return False
