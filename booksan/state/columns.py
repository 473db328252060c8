"""Rows that an operator keeps, in columns: Arrow blobs in the client's database.

Rows are kept as they come, one blob for each batch, in the transaction that notes the batch. When
they have become many, the rows of each key are merged, and go into the bucket of the key's hash; a
bucket is merged again when it has doubled. So each row is worked on a few times at most, a whole
column at once, and what must be in memory is bounded by a bucket and by what came since.
"""

import copy
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Self

import polars as pl

from booksan.heartbeat import beat
from booksan.messages import to_body, to_frame

#: The column whose hash chooses the bucket, and whose rows are never torn apart.
KEY = "key"
#: Buckets of the hash: as many pieces as can be moved, or worked on, one after the other.
BUCKETS = 64
#: The bucket of rows that are in none yet.
LOOSE = -1
#: Loose rows that were not merged, at most; and of merged ones half as many stay loose.
LOOSE_ROWS = 200_000
#: Rows that are loaded at once for the output: as many buckets as have them.
LOADED_ROWS = 200_000

#: Names and types.
Columns = Mapping[str, pl.DataType | type[pl.DataType]]
#: All rows of each key in, and fewer that say the same out.
Merge = Callable[[pl.DataFrame], pl.DataFrame]


def bucket_of(key: str) -> int:
    """By other bits of the hash than those that choose the shard."""
    return zlib.crc32(key.encode()) >> 26


class Buckets(NamedTuple):
    """Those that are loaded together: from the first up to the one before `end`."""

    begin: int
    end: int

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of these buckets."""
        if self.begin == LOOSE:
            return frame
        inside = [self.begin <= bucket_of(key) < self.end for key in frame[KEY]]
        return frame.filter(pl.Series(inside, dtype=pl.Boolean))


#: What is to be given, out of the rows of some buckets, in the order of the keys.
Shape = Callable[[pl.DataFrame, Buckets], pl.DataFrame]


class _Loaded(NamedTuple):
    buckets: Buckets
    frame: pl.DataFrame


class ColumnStore:
    """The rows of one table; works inside the transactions of whoever uses it."""

    db: sqlite3.Connection

    def __init__(self, name: str, merge: Merge, columns: Columns = MappingProxyType({})) -> None:
        """`columns`: what there is before any rows have come, with the key."""
        self.name = name
        self._merge = merge
        self._columns = pl.Schema({KEY: pl.String, **columns})
        self._loaded: _Loaded | None = None

    def at(self, db: sqlite3.Connection) -> Self:
        bound = copy.copy(self)
        bound.db = db
        return bound

    def create(self) -> None:
        self.db.execute(
            f"""CREATE TABLE {self.name} (id INTEGER PRIMARY KEY, bucket INTEGER NOT NULL,
                    merged INTEGER NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL)"""
        )
        # Sums of rows are asked for often, and should not read the blobs.
        self.db.execute(f"CREATE INDEX {self.name}_rows ON {self.name} (bucket, merged, n)")

    def add(self, body: bytes, rows: int) -> None:
        """One batch's rows as an Arrow blob."""
        if rows:
            self._insert(LOOSE, body, rows, merged=False)
            if self._rows(LOOSE)[False] > LOOSE_ROWS:
                self._merge_loose()

    def whole(self) -> pl.DataFrame:
        """All rows, merged."""
        return self._read(Buckets(LOOSE, BUCKETS))

    def rewrite(self, change: Merge) -> None:
        """Merges all, and keeps what is made of it, bucket by bucket."""
        self._seal()
        for bucket in self._filled():
            beat()
            self._replace(bucket, change(self._read(Buckets(bucket, bucket + 1))))

    def piece(self, cursor: str | None, rows: int, shape: Shape) -> tuple[pl.DataFrame, str | None]:
        """Whole keys with about so many rows, after the cursor; and the next cursor, or None."""
        begin, _, after = (cursor or "").partition(" ")
        loaded = self._load(int(begin) if begin else None, shape)
        left = loaded.frame
        if cursor is not None and " " in cursor:
            left = left.filter(pl.col(KEY) > after)
        piece = left.head(rows)
        if piece.height < left.height:
            last = piece[KEY][-1]
            piece = left.filter(pl.col(KEY) <= last)
            if piece.height < left.height:
                return piece, f"{loaded.buckets.begin} {last}"
        end = loaded.buckets.end
        return piece, str(end) if 0 < end < BUCKETS else None

    def _load(self, begin: int | None, shape: Shape) -> _Loaded:
        if begin is None:
            self._seal()
            begin = 0 if any(bucket != LOOSE for bucket in self._filled()) else LOOSE
        if self._loaded is None or self._loaded.buckets.begin != begin:
            buckets = self._together(begin)
            self._loaded = _Loaded(buckets, shape(self._read(buckets), buckets))
        return self._loaded

    def _together(self, begin: int) -> Buckets:
        """From this bucket on as many as have enough rows."""
        if begin == LOOSE:
            return Buckets(LOOSE, 0)
        found, rows, end = self._filled(), 0, begin
        while end < BUCKETS and rows < LOADED_ROWS:
            rows += found.get(end, 0)
            end += 1
        return Buckets(begin, end)

    def _seal(self) -> None:
        """Loose rows stay loose only if there are no others."""
        filled = self._filled()
        if LOOSE in filled and len(filled) > 1:
            self._spread(self._take(LOOSE))

    def _merge_loose(self) -> None:
        merged = self._take(LOOSE)
        if merged.height <= LOOSE_ROWS // 2:
            self._insert(LOOSE, to_body(merged), merged.height, merged=True)
        else:
            self._spread(merged)

    def _spread(self, frame: pl.DataFrame) -> None:
        numbers = pl.Series("bucket", [bucket_of(key) for key in frame[KEY]], dtype=pl.Int64)
        parts = frame.with_columns(numbers).partition_by(
            "bucket", include_key=False, as_dict=True, maintain_order=True
        )
        for (bucket,), part in sorted(parts.items()):
            beat()
            self._insert(bucket, to_body(part), part.height, merged=False)
            rows = self._rows(bucket)
            if rows[False] > rows[True]:
                self._replace(bucket, self._read(Buckets(bucket, bucket + 1)))

    def _take(self, bucket: int) -> pl.DataFrame:
        taken = self._read(Buckets(bucket, bucket + 1))
        self._delete(bucket)
        return taken

    def _replace(self, bucket: int, frame: pl.DataFrame) -> None:
        self._delete(bucket)
        self._insert(bucket, to_body(frame), frame.height, merged=True)

    def _read(self, buckets: Buckets) -> pl.DataFrame:
        found = self.db.execute(
            f"SELECT bucket, merged, body FROM {self.name} WHERE bucket >= ? AND bucket < ? "
            "ORDER BY id",
            buckets,
        ).fetchall()
        if not found:
            return pl.DataFrame(schema=self._columns)
        # What was merged is this worker's own, and as large as the number of different rows.
        frames = [to_frame(body, None) if merged else to_frame(body) for _, merged, body in found]
        rows = pl.concat([pl.DataFrame(schema=self._columns), *frames], how="diagonal_relaxed")
        # Buckets that are merged each have no key in common; loose rows may be of any.
        filled = {bucket for bucket, *_ in found}
        apart = len(filled) == len(found) and (LOOSE not in filled or len(filled) == 1)
        return rows if apart and all(merged for _, merged, _ in found) else self._merge(rows)

    def _filled(self) -> dict[int, int]:
        """The rows of each bucket that has some."""
        sql = f"SELECT bucket, sum(n) FROM {self.name} GROUP BY bucket"
        return dict(self.db.execute(sql).fetchall())

    def _rows(self, bucket: int) -> dict[bool, int]:
        """Of a bucket the rows that were merged, and those that came since."""
        sql = f"SELECT merged, sum(n) FROM {self.name} WHERE bucket = ? GROUP BY merged"
        return {False: 0, True: 0} | {bool(k): n for k, n in self.db.execute(sql, (bucket,))}

    def _insert(self, bucket: int, body: bytes, rows: int, *, merged: bool) -> None:
        sql = f"INSERT INTO {self.name} (bucket, merged, n, body) VALUES (?, ?, ?, ?)"
        self.db.execute(sql, (bucket, merged, rows, body))

    def _delete(self, bucket: int) -> None:
        self.db.execute(f"DELETE FROM {self.name} WHERE bucket = ?", (bucket,))
