"""Joining a later source to the rows of an earlier one, by a key that may come twice there.

Of an earlier row that comes twice the first in file order counts, also when a later one would
pass the filter; so all of them are kept until the source is complete, and only then those that
did not pass go.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from booksan.messages import Message, to_body, to_frame
from booksan.stages.graph import Keyed, Params
from booksan.stages.operator import Matches, Piece, Stateful
from booksan.state.client import Conflict
from booksan.state.columns import KEY, Buckets, ColumnStore


def first_rows(
    frame: pl.DataFrame, key: str, wanted: pl.Expr | None = None, *keep: str, every: bool = False
) -> Keyed:
    """Rows of the earlier source: the first of each key, what is kept only where it is wanted."""
    test = pl.lit(True) if wanted is None else wanted
    return Keyed(
        # Only what goes on is copied: lists may be long.
        frame.select(
            pl.col(key).alias("key"),
            "row",
            test.alias("wanted"),
            *(pl.when(test).then(pl.col(name)).alias(name) for name in keep),
        ).filter(pl.col("key").is_first_distinct()),
        None if every else "key",
        every,
    )


def _first_of_each(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("batch", "row").unique(KEY, keep="first", maintain_order=True)


class Joining(Stateful):
    """Keeps one row for each key of the earlier source, if there is one, made by `first_rows`."""

    def __init__(self, earlier: str | None = None, keep: Sequence[str] = ()) -> None:
        self.earlier = earlier
        self._keep = tuple(keep)
        self._rows_of_earlier = (
            ColumnStore("known", _first_of_each, dict.fromkeys(keep, pl.Null)) if earlier else None
        )
        self._known: pl.DataFrame | None = None
        #: Of the batch that is being prepared, if its rows are joined.
        self._found: Matches | None = None

    @property
    def _earlier_rows(self) -> ColumnStore:
        assert self._rows_of_earlier is not None, "nothing is joined"
        return self._rows_of_earlier

    def prepare(self, message: Message) -> Any:
        frame = to_frame(message.body)
        if message.input == self.earlier:
            rows = frame.select(
                KEY, pl.lit(message.seq).alias("batch"), "row", "wanted", *self._keep
            )
            return to_body(rows), rows.height
        self._found = None
        rows = self.prepare_rows(message.input, frame)
        return rows, self._found

    def apply(self, message: Message, prepared: Any) -> None:
        if message.input == self.earlier:
            self._earlier_rows.add(*prepared)
            return
        rows, found = prepared
        self.apply_rows(message.input, rows)
        if found is not None:
            self._count(message.input, found)

    def input_complete(self, name: str) -> None:
        if name == self.earlier:
            self._earlier_rows.rewrite(lambda rows: rows.filter(pl.col("wanted")))

    def matches(self, name: str) -> Matches | None:
        """Counted in the transactions that take the rows, so each of them counts once."""
        if self.earlier is None or name == self.earlier or name not in self.place.dataset.source:
            return None
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (f"joined {name}",))
        found = row.fetchone()
        return Matches(*json.loads(found[0])) if found else Matches(0, 0)

    def _count(self, name: str, found: Matches) -> None:
        before = self.matches(name)
        if before is not None:
            after = json.dumps([before.rows + found.rows, before.matched + found.matched])
            sql = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
            self.db.execute(sql, (f"joined {name}", after))

    @abstractmethod
    def prepare_rows(self, name: str, frame: pl.DataFrame) -> Any:
        """The costly part, for rows of any other input."""

    @abstractmethod
    def apply_rows(self, name: str, prepared: Any) -> None:
        """Changes the tables."""

    def joined(self, frame: pl.DataFrame, key: str) -> pl.DataFrame:
        """The rows whose key is known and wanted; all of them where nothing is joined."""
        if self.earlier is None:
            return frame
        # What is joined to is mostly longer than a batch: only its rows of these keys are hashed.
        near = self.known().join(frame, left_on=KEY, right_on=key, how="semi")
        matching = frame.join(near, left_on=key, right_on=KEY, how="semi")
        self._found = Matches(frame.height, matching.height)
        return matching

    def known(self) -> pl.DataFrame:
        """Each wanted key and what is kept of it; the same from the end of the source on."""
        if self._known is None:
            assert self.earlier is not None
            if not self.is_complete(self.earlier):
                raise Conflict(
                    f"rows to join came before {self.earlier} was complete: its part of them "
                    "is lost (was its disk replaced?); begin the run anew"
                )
            self._known = self._earlier_rows.whole().select(KEY, *self._keep)
        return self._known

    @cached_property
    def kept(self) -> Mapping[str, list[Any]]:
        """The same as a dictionary, for few."""
        return {key: list(kept) for key, *kept in self.known().iter_rows()}


#: From (key, what is kept of it) to rows for the stages after this one.
GiveFirst = Callable[[list[tuple[str, list[Any]]], Params], Mapping[str, Keyed]]


class First(Joining):
    """The first row of each key, if it is wanted."""

    def __init__(self, earlier: str, give: GiveFirst, *, keep: Sequence[str] = ()) -> None:
        super().__init__(earlier, keep)
        self._give = give

    def prepare_rows(self, name: str, frame: pl.DataFrame) -> Any:
        raise Conflict(f"{self.place.stage} reads {self.earlier} only, and not {name}")

    def apply_rows(self, name: str, prepared: Any) -> None:
        raise AssertionError("nothing was prepared")

    def final(self, cursor: str | None) -> Piece:
        rows, after = self._earlier_rows.piece(cursor, self.place.piece_rows, self._known_rows)
        found = [(key, list(kept)) for key, *kept in rows.iter_rows()]
        return Piece(self._give(found, self.params), after)

    def _known_rows(self, rows: pl.DataFrame, _: Buckets) -> pl.DataFrame:
        return rows.select(KEY, *self._keep).sort(KEY)
