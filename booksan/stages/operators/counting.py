"""Counting: how often each value came with each key, on disk, in columns, or after a test."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from booksan.messages import Message, to_body, to_frame
from booksan.stages.graph import Keyed, Params
from booksan.stages.operator import Piece, Stateful
from booksan.stages.operators.joining import Joining

#: The columns that rows for a tally have.
KEY, VALUE, COUNT = "key", "value", "n"


#: Key, what is kept for it, value, count; without a value if the key never came.
Row = tuple[str, str | None, str | None, int]


class Group(NamedTuple):
    """All that is known of one key."""

    key: str
    #: What the join kept for it.
    kept: list[Any]
    #: (value, how often it came), in the order of the values.
    counts: list[tuple[str, int]]

    @property
    def total(self) -> int:
        return sum(n for _, n in self.counts)


#: From groups to rows for the stages after this one.
Give = Callable[[list[Group], Params], Mapping[str, Keyed]]


class Tally(Joining):
    """Takes rows of `key`, `value` and `n`; `on` is the column that is joined, if not the key.

    With a join on the key itself, keys that never came have a group too, without counts.
    """

    schema = """
        CREATE TABLE tally (
            key TEXT NOT NULL, value TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (key, value)
        ) WITHOUT ROWID
    """

    def __init__(
        self,
        give: Give,
        *,
        earlier: str | None = None,
        keep: Sequence[str] = (),
        on: str = KEY,
    ) -> None:
        super().__init__(earlier, keep)
        self._give = give
        self._on = on

    def prepare_rows(self, name: str, frame: pl.DataFrame) -> list[tuple[Any, ...]]:
        rows = self.joined(frame, self._on)
        if self._on != KEY:
            rows = rows.group_by(KEY, VALUE, maintain_order=True).agg(pl.col(COUNT).sum())
        return rows.select(KEY, VALUE, COUNT).rows()

    def apply_rows(self, name: str, prepared: list[tuple[Any, ...]]) -> None:
        self.db.executemany(
            """INSERT INTO tally VALUES (?, ?, ?)
               ON CONFLICT (key, value) DO UPDATE SET n = n + excluded.n""",
            prepared,
        )

    def final(self, cursor: str | None) -> Piece:
        """Whole groups, with about as many rows as belong into a piece."""
        groups = _Groups(self._rows(cursor or ""), self.place.piece_rows)
        # All of them at once: only then it is known whether there are more.
        found = list(groups)
        return Piece(self._give(found, self.params), found[-1].key if groups.more else None)

    def _rows(self, after: str) -> Iterator[Row]:
        if self.earlier is not None and self._on == KEY:
            sql = """SELECT key, kept, value, n FROM known LEFT JOIN tally USING (key)
                     WHERE key > ? ORDER BY key, value"""
        else:
            sql = "SELECT key, NULL, value, n FROM tally WHERE key > ? ORDER BY key, value"
        return self.db.execute(sql, (after,))


class _Groups:
    """The first groups of these rows, until they have enough rows."""

    def __init__(self, rows: Iterator[Row], enough: int) -> None:
        self._rows = rows
        self._enough = enough
        #: Whether there are groups after those.
        self.more = False

    def __iter__(self) -> Iterator[Group]:
        taken = 0
        for key, rows in itertools.groupby(self._rows, key=lambda row: row[0]):
            if taken >= self._enough:
                self.more = True
                return
            of_key = list(rows)
            kept = of_key[0][1]
            counts = [(value, n) for _, _, value, n in of_key if value is not None]
            taken += len(of_key)
            yield Group(key, json.loads(kept) if kept else [], counts)


# Counting in columns: how often each value came with each key, of few different ones.
#
# Rows are kept as they come, in pieces, and the pieces are merged when they have become as many
# as what was merged before. So each row is grouped a few times at most, a whole column at once,
# and what is kept is as small as the number of different rows. A `Tally` counts row by row on
# disk instead, and is for keys and values that are as many as the rows themselves.

#: Rows that are not merged yet, at least, before they are.
UNMERGED = 200_000
#: Rows in one piece of the final output, in pieces of rows that are worked on one by one.
PIECES = 20

#: From the columns key, value and n, and the rows that were given to all shards.
GiveColumns = Callable[[pl.DataFrame, Params, list[Any]], Mapping[str, Keyed]]


class Histogram(Stateful):
    """Takes rows of `key` and `value`, and rows of the input `given`, which go to every shard."""

    schema = """
        CREATE TABLE pieces (id INTEGER PRIMARY KEY, merged INTEGER NOT NULL, n INTEGER NOT NULL,
                             body BLOB NOT NULL);
        CREATE TABLE given (row TEXT NOT NULL)
    """

    def __init__(self, give: GiveColumns, *, given: str | None = None) -> None:
        self._give = give
        self._given = given
        #: While the final output is made: everything, in the order of the keys.
        self._whole: pl.DataFrame | None = None

    def prepare(self, message: Message) -> list[tuple[str]]:
        """What comes to be counted is kept as it is, and looked at when it is merged."""
        if message.input != self._given:
            return []
        return [(json.dumps(row),) for row in to_frame(message.body).rows()]

    def apply(self, message: Message, prepared: list[tuple[str]]) -> None:
        if message.input == self._given:
            self.db.executemany("INSERT INTO given VALUES (?)", prepared)
        elif message.data["rows"]:
            self._keep(message.body, message.data["rows"], merged=False)
            self._merge_if_due()

    def final(self, cursor: str | None) -> Piece:
        """All of some keys, with about as many rows as belong into a piece of columns."""
        if self._whole is None:
            self._whole = self._merged().sort(KEY)
        rows = self._whole if cursor is None else self._whole.filter(pl.col(KEY) > cursor)
        piece = rows.head(PIECES * self.place.piece_rows)
        last = None
        if piece.height < rows.height:
            last = str(piece[KEY][-1])
            piece = rows.filter(pl.col(KEY) <= last)
        given = [json.loads(row) for (row,) in self.db.execute("SELECT row FROM given")]
        return Piece(
            self._give(piece, self.params, given), last if piece.height < rows.height else None
        )

    def _keep(self, body: bytes, rows: int, *, merged: bool) -> None:
        sql = "INSERT INTO pieces (merged, n, body) VALUES (?, ?, ?)"
        self.db.execute(sql, (merged, rows, body))

    def _merge_if_due(self) -> None:
        rows = dict(self.db.execute("SELECT merged, sum(n) FROM pieces GROUP BY merged"))
        if rows[0] > max(UNMERGED, rows.get(1, 0)):
            merged = self._merged()
            self.db.execute("DELETE FROM pieces")
            self._keep(to_body(merged), merged.height, merged=True)

    def _merged(self) -> pl.DataFrame:
        pieces = [pl.DataFrame(schema={KEY: pl.String, VALUE: pl.String, COUNT: pl.Int64})]
        for merged, body in self.db.execute("SELECT merged, body FROM pieces ORDER BY id"):
            # What was merged is this worker's own, and as large as the number of different rows.
            frame = to_frame(body, None) if merged else to_frame(body)
            counted = frame if merged else frame.with_columns(pl.lit(1, pl.Int64).alias(COUNT))
            pieces.append(counted.select(KEY, VALUE, COUNT))
        return pl.concat(pieces).group_by(KEY, VALUE).agg(pl.col(COUNT).sum())


# Counting what passes a costly test, for keys that can still reach a threshold.
#
# The texts of a key are kept until there are more of them than the threshold; what comes after that
# is tested at once. At the end the kept ones of such keys are tested too, in bounded portions, and
# those of all others never are.

Test = Callable[[str], bool]
#: From (key, what is kept of it, how many passed) to rows for the stages after this one.
GiveCounts = Callable[[list[tuple[str, list[Any], int]], Params], Mapping[str, Keyed]]

#: Texts that are tested in one piece of the final output.
PORTION = 2_000

#: Cursors: while texts are tested, and before the key after which counts are given.
_TESTING = "testing"
_GIVING = "giving:"


class Prepared(NamedTuple):
    #: (key, text), not tested.
    texts: list[tuple[str, str]]
    #: (key, how many came, how many of the tested passed).
    counts: list[tuple[str, int, int]]


class FilteredTally(Joining):
    """Takes rows of `key` and `text`; `threshold` is the parameter that must be passed."""

    schema = """
        CREATE TABLE texts (key TEXT NOT NULL, text TEXT NOT NULL);
        CREATE INDEX by_key ON texts (key);
        CREATE TABLE counts (
            key TEXT PRIMARY KEY, n INTEGER NOT NULL, passed INTEGER NOT NULL
        ) WITHOUT ROWID
    """

    def __init__(
        self,
        test: Test,
        threshold: str,
        give: GiveCounts,
        *,
        earlier: str,
        keep: Sequence[str] = (),
    ) -> None:
        super().__init__(earlier, keep)
        self._test = test
        self._threshold = threshold
        self._give = give

    def prepare_rows(self, name: str, frame: pl.DataFrame) -> Prepared:
        by_key: dict[str, list[str]] = {}
        for key, text in self.joined(frame, "key").select("key", "text").iter_rows():
            by_key.setdefault(key, []).append(text)
        kept: list[tuple[str, str]] = []
        counts: list[tuple[str, int, int]] = []
        for key, texts in by_key.items():
            passed = 0
            if self._can_pass(key):
                passed = sum(map(self._test, texts))
            else:
                kept += [(key, text) for text in texts]
            counts.append((key, len(texts), passed))
        return Prepared(kept, counts)

    def apply_rows(self, name: str, prepared: Prepared) -> None:
        self.db.executemany("INSERT INTO texts VALUES (?, ?)", prepared.texts)
        self.db.executemany(
            """INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET
                   n = n + excluded.n, passed = passed + excluded.passed""",
            prepared.counts,
        )

    def final(self, cursor: str | None) -> Piece:
        """First, without any output, the kept texts that matter; then the counts."""
        if cursor in (None, _TESTING):
            if self._test_portion():
                return Piece(cursor=_TESTING)
            cursor = _GIVING
        threshold = self.params[self._threshold]
        rows = self.db.execute(
            """SELECT key, kept, passed FROM counts JOIN known USING (key)
               WHERE key > ? AND passed > ? ORDER BY key LIMIT ?""",
            (cursor.removeprefix(_GIVING), threshold, self.place.piece_rows),
        ).fetchall()
        found = [(key, json.loads(kept) if kept else [], passed) for key, kept, passed in rows]
        full = len(rows) == self.place.piece_rows
        return Piece(self._give(found, self.params), f"{_GIVING}{rows[-1][0]}" if full else None)

    def _can_pass(self, key: str) -> bool:
        row = self.db.execute("SELECT n FROM counts WHERE key = ?", (key,)).fetchone()
        return row is not None and row[0] > self.params[self._threshold]

    def _test_portion(self) -> bool:
        """Tests some of the kept texts; False if there are none left."""
        rows = self.db.execute(
            """SELECT texts.rowid, key, text FROM counts JOIN texts USING (key)
               WHERE n > ? LIMIT ?""",
            (self.params[self._threshold], PORTION),
        ).fetchall()
        self.db.executemany("DELETE FROM texts WHERE rowid = ?", [row[:1] for row in rows])
        passed: dict[str, int] = {}
        for _, key, text in rows:
            passed[key] = passed.get(key, 0) + self._test(text)
        self.db.executemany(
            "UPDATE counts SET passed = passed + ? WHERE key = ?",
            [(n, key) for key, n in passed.items()],
        )
        return bool(rows)
