"""How far each stage is with a client, read from the stages' own databases."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from booksan.state.database import open_reader


@dataclass(frozen=True)
class StreamProgress:
    stage: str
    shard: int
    sender: str
    batches: int
    of_batches: int | None
    phase: str

    @property
    def complete(self) -> bool:
        return self.batches == self.of_batches


def progress(root: Path, client: str) -> Iterator[StreamProgress]:
    """Every stream of every shard on this host; databases that come or go meanwhile are skipped."""
    for path in sorted((root / "clients" / client).glob("*.db")):
        try:
            db = open_reader(path)
        except sqlite3.OperationalError:
            continue
        try:
            rows = db.execute(
                "SELECT stage, shard, sender, batches, of_batches, phase FROM progress"
            ).fetchall()
        except sqlite3.OperationalError:
            continue
        finally:
            db.close()
        for stage, shard, sender, batches, of_batches, phase in rows:
            yield StreamProgress(stage, int(shard), sender, batches, of_batches, phase)


def missing_numbers(root: Path, stream: StreamProgress, client: str, most: int = 10) -> list[int]:
    """The first batch numbers that a stream lacks."""
    path = root / "clients" / client / f"{stream.stage}-{stream.shard}.db"
    db = open_reader(path)
    try:
        known = {
            row[0] for row in db.execute("SELECT seq FROM dedup WHERE sender = ?", (stream.sender,))
        }
    finally:
        db.close()
    top = stream.of_batches if stream.of_batches is not None else max(known, default=-1) + 1
    return [number for number in range(top) if number not in known][:most]
