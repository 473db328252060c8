"""How far each stage is with a client, read from the stages' own databases."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from booksan.state.database import open_reader


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

    @property
    def complete(self) -> bool:
        return self.batches == self.of_batches


def clients(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "clients").glob("*") if path.is_dir())


def progress(root: Path, client: str) -> Iterator[StreamProgress]:
    """Every stream of every shard on this host; databases that come or go meanwhile are skipped."""
    for path in sorted((root / "clients" / client).glob("*.db")):
        try:
            rows = _read(path, "SELECT * FROM progress")
        except sqlite3.OperationalError:
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
            )


def missing_numbers(root: Path, stream: StreamProgress, most: int = 10) -> list[int]:
    """The first batch numbers that a stream lacks."""
    path = root / "clients" / stream.client / f"{stream.stage}-{stream.shard}.db"
    rows = _read(path, "SELECT seq FROM dedup WHERE sender = ?", stream.sender)
    known = {row["seq"] for row in rows}
    top = stream.of_batches if stream.of_batches is not None else max(known, default=-1) + 1
    return [number for number in range(top) if number not in known][:most]


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
        except sqlite3.OperationalError:
            continue
        try:
            tables = sqlite_utils.Database(db)
            rows = {name: tables[name].count for name in tables.table_names()}
        except sqlite3.OperationalError:
            continue
        finally:
            db.close()
        files = (path, path.with_name(f"{path.name}-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        yield DatabaseSize(client, path.stem, size, rows)
