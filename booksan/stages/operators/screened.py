"""Counting what passes a costly test, for keys that can still reach a threshold.

The texts of a key are kept until there are more of them than the threshold; what comes after that
is tested at once. At the end the kept ones of such keys are tested too, in bounded portions, and
those of all others never are.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from booksan.stages.graph import Keyed, Params
from booksan.stages.operator import Piece
from booksan.stages.operators.joining import Joining

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


class Screened(Joining):
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
