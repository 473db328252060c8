"""Counting: how often each value came with each key, or only what passes a costly test."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from booksan.messages import Message, to_body, to_frame
from booksan.stages.graph import Keyed, Params
from booksan.stages.operator import Piece, Stateful
from booksan.stages.operators.joining import Joining
from booksan.state.columns import KEY, Buckets, Columns, ColumnStore

#: The columns that rows for a tally have beside the key.
VALUE, COUNT = "value", "n"
COUNTED: Columns = {VALUE: pl.String, COUNT: pl.Int64}


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


#: The groups that can matter, out of rows of `key`, what is kept, `value` and `n`.
Narrow = Callable[[pl.DataFrame, Params], pl.DataFrame]


def _summed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(KEY, VALUE).agg(pl.col(COUNT).sum())


class Tally(Joining):
    """Takes rows of `key`, `value` and `n`; `on` is the column that is joined, if not the key.

    With a join on the key itself, keys that never came have a group too, without counts. `narrow`
    leaves out rows of groups of which `give` would make nothing, a whole column at once.
    """

    def __init__(
        self,
        give: Give,
        *,
        earlier: str | None = None,
        keep: Sequence[str] = (),
        on: str = KEY,
        narrow: Narrow | None = None,
    ) -> None:
        super().__init__(earlier, keep)
        self._give = give
        self._on = on
        self._narrow = narrow
        self._counts = ColumnStore("tally", _summed, COUNTED)

    def prepare_rows(self, name: str, frame: pl.DataFrame) -> tuple[bytes, int]:
        columns = pl.Schema({KEY: pl.String, **COUNTED})
        rows = self.joined(frame, self._on).select(*columns).cast(columns)
        if self._on != KEY:
            rows = _summed(rows)
        return to_body(rows), rows.height

    def apply_rows(self, name: str, prepared: tuple[bytes, int]) -> None:
        self._counts.add(*prepared)

    def final(self, cursor: str | None) -> Piece:
        """Whole groups, with about as many rows as belong into a piece."""
        rows, after = self._counts.piece(cursor, self.place.piece_rows, self._with_known)
        return Piece(self._give(list(_groups(rows)), self.params), after)

    def _with_known(self, rows: pl.DataFrame, buckets: Buckets) -> pl.DataFrame:
        if self.earlier is not None and self._on == KEY:
            rows = buckets.of(self.known()).join(rows, on=KEY, how="left")
        if self._narrow is not None:
            rows = self._narrow(rows, self.params)
        return rows.sort(KEY, VALUE)


def _groups(rows: pl.DataFrame) -> Iterator[Group]:
    for key, of_key in itertools.groupby(rows.iter_rows(), key=lambda row: row[0]):
        found = list(of_key)
        _, *kept, _, _ = found[0]
        yield Group(key, kept, [(value, n) for *_, value, n in found if value is not None])


#: Rows in one piece of the final output, in pieces of rows that are worked on one by one.
PIECES = 20

#: From the columns key, value and n, and the rows that were given to all shards.
GiveColumns = Callable[[pl.DataFrame, Params, list[Any]], Mapping[str, Keyed]]


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that were never merged count once each."""
    return _summed(rows.with_columns(pl.col(COUNT).fill_null(1)))


class Histogram(Stateful):
    """Takes rows of `key` and `value`, and rows of the input `given`, which go to every shard.

    What comes to be counted is kept as it is, and looked at when it is merged.
    """

    schema = "CREATE TABLE given (row TEXT NOT NULL)"

    def __init__(self, give: GiveColumns, *, given: str | None = None) -> None:
        self._give = give
        self._given = given
        self._counts = ColumnStore("histogram", _counted, COUNTED)

    def prepare(self, message: Message) -> list[tuple[str]]:
        if message.input != self._given:
            return []
        return [(json.dumps(row),) for row in to_frame(message.body).rows()]

    def apply(self, message: Message, prepared: list[tuple[str]]) -> None:
        if message.input == self._given:
            self.db.executemany("INSERT INTO given VALUES (?)", prepared)
        else:
            self._counts.add(message.body, message.data["rows"])

    def final(self, cursor: str | None) -> Piece:
        """All of some keys, with about as many rows as belong into a piece of columns."""
        enough = PIECES * self.place.piece_rows
        rows, after = self._counts.piece(cursor, enough, lambda rows, _: rows.sort(KEY))
        given = [json.loads(row) for (row,) in self.db.execute("SELECT row FROM given")]
        return Piece(self._give(rows, self.params, given), after)


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
            "SELECT key, passed FROM counts WHERE key > ? AND passed > ? ORDER BY key LIMIT ?",
            (cursor.removeprefix(_GIVING), threshold, self.place.piece_rows),
        ).fetchall()
        wanted = pl.DataFrame(rows, {KEY: pl.String, "passed": pl.Int64}, orient="row")
        known = wanted.join(self.known(), on=KEY, how="left").sort(KEY)
        found = [(key, list(kept), passed) for key, passed, *kept in known.iter_rows()]
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
