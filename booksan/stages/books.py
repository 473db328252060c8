"""The data set `books`: what its five queries need, who computes it, and who gets the answers."""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import polars as pl

from booksan.messages import Message, to_frame
from booksan.sentiment import polarities
from booksan.stages import exact
from booksan.stages.graph import (
    ColumnType,
    Dataset,
    Keyed,
    Param,
    Params,
    Query,
    Source,
    Stage,
)
from booksan.stages.join import KeyedJoin, first_rows
from booksan.stages.literals import elements
from booksan.stages.operator import Piece, Stateful, Stateless
from booksan.stages.results import Results

# -- from parsed rows to the stages ----------------------------------------------------------


def _participating(frame: pl.DataFrame) -> pl.DataFrame:
    """Books that lack none of the values, with their year and their lists taken apart."""
    year = pl.col("publishedDate").str.extract("([0-9]{4})").cast(pl.Int32)
    frame = frame.with_columns(year=year).filter(
        pl.col("Title") != "",
        pl.col("authors") != "",
        pl.col("categories") != "",
        pl.col("year").is_not_null(),
    )
    strings = pl.List(pl.String)
    return frame.select(
        "row",
        "publisher",
        "year",
        title="Title",
        authors=pl.Series([elements(text) for text in frame["authors"]], dtype=strings),
        categories=pl.Series([elements(text) for text in frame["categories"]], dtype=strings),
    ).filter(pl.col("authors").list.len() > 0, pl.col("categories").list.len() > 0)


def route_books(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    books = _participating(frame)
    authors = books.select("year", author="authors").explode("author")
    of_years = pl.col("year").is_between(params["q3.from_year"], params["q3.to_year"])
    of_category = pl.col("categories").list.contains(pl.lit(params["q5.category"]))
    return {
        "q1-filter": Keyed(books.drop("row"), "title"),
        "q2-decades": Keyed(
            authors.select("author", decade=pl.col("year") // 10).unique(maintain_order=True),
            "author",
        ),
        "q3-join": first_rows(books, "title", of_years, "authors"),
        "q5-sentiment": first_rows(books, "title", of_category),
    }


def route_reviews(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    reviews = frame.select(
        title="Title", score=pl.col("review/score").str.strip_chars(" "), text="review/text"
    ).filter(pl.col("title") != "")
    scores = reviews.group_by("title", "score", maintain_order=True).agg(reviews=pl.len())
    return {
        "q3-join": Keyed(scores, "title"),
        "q5-sentiment": Keyed(
            reviews.filter(pl.col("text") != "").select("title", "text"), "title"
        ),
    }


# -- what the stages do ----------------------------------------------------------------------


class TitleFilter(Stateless):
    """q1: by category, year and a word in the title."""

    def transform(self, message: Message) -> Mapping[str, Keyed]:
        params = self.params
        frame = to_frame(message.body).filter(
            pl.col("categories").list.contains(pl.lit(params["q1.category"])),
            pl.col("year").is_between(params["q1.from_year"], params["q1.to_year"]),
        )
        # Python's lower case for both: libraries differ about a few letters.
        word = str(params["q1.word"]).lower()
        found = pl.Series([word in title.lower() for title in frame["title"]], dtype=pl.Boolean)
        return {"results": Keyed(frame.filter(found).select("title", "authors", "publisher"))}


class Decades(Stateful):
    """q2: in how many different decades an author has books."""

    schema = """
        CREATE TABLE decades (
            author TEXT NOT NULL, decade INTEGER NOT NULL, PRIMARY KEY (author, decade)
        ) WITHOUT ROWID
    """

    def prepare(self, message: Message) -> list[tuple[Any, ...]]:
        return to_frame(message.body).select("author", "decade").rows()

    def apply(self, message: Message, prepared: list[tuple[Any, ...]]) -> None:
        self.db.executemany("INSERT OR IGNORE INTO decades VALUES (?, ?)", prepared)

    def final(self, cursor: str | None) -> Piece:
        rows = self.db.execute(
            """SELECT author, count(*) AS decades FROM decades WHERE author > ?
               GROUP BY author HAVING decades >= ? ORDER BY author LIMIT ?""",
            (cursor or "", self.params["q2.decades"], self.place.piece_rows),
        ).fetchall()
        schema = {"author": pl.String, "decades": pl.Int64}
        return self.piece(rows, {"results": Keyed(pl.DataFrame(rows, schema, orient="row"))})


class Popularity(KeyedJoin):
    """q3 and the means of q4: how often each score was given to each book of the years."""

    earlier = "books"
    extra = "authors"
    schema = (
        KeyedJoin.schema
        + """;
        CREATE TABLE scores (
            title TEXT NOT NULL, score TEXT NOT NULL, reviews INTEGER NOT NULL,
            PRIMARY KEY (title, score)
        ) WITHOUT ROWID
    """
    )

    def prepare(self, message: Message) -> list[tuple[Any, ...]]:
        if message.input == self.earlier:
            return self.prepare_earlier(message)
        frame = self.joined(to_frame(message.body), "title")
        return frame.select("title", "score", "reviews").rows()

    def apply(self, message: Message, prepared: list[tuple[Any, ...]]) -> None:
        if message.input == self.earlier:
            self.apply_earlier(prepared)
            return
        self.db.executemany(
            """INSERT INTO scores VALUES (?, ?, ?)
               ON CONFLICT (title, score) DO UPDATE SET reviews = reviews + excluded.reviews""",
            prepared,
        )

    def final(self, cursor: str | None) -> Piece:
        rows = self.db.execute(
            """SELECT key, extra, coalesce(sum(reviews), 0) AS total
               FROM known LEFT JOIN scores ON title = key
               WHERE key > ? GROUP BY key HAVING total >= ? ORDER BY key LIMIT ?""",
            (cursor or "", self.params["q3.min_reviews"], self.place.piece_rows),
        ).fetchall()
        means = [(row[0], mean) for row in rows if (mean := self._mean(row[0])) is not None]
        answers = [(title, json.loads(authors), total) for title, authors, total in rows]
        answer = pl.Schema(
            {"title": pl.String(), "authors": pl.List(pl.String), "reviews": pl.Int64()}
        )
        ranked = {"title": pl.String, "mean_score": pl.Float64}
        return self.piece(
            rows,
            {
                "results": Keyed(pl.DataFrame(answers, answer, orient="row")),
                "q4-top": Keyed(pl.DataFrame(means, ranked, orient="row")),
            },
        )

    def _mean(self, title: str) -> float | None:
        """The exact mean of the scores, rounded once; None without any score."""
        total, count = Fraction(0), 0
        query = "SELECT score, reviews FROM scores WHERE title = ? AND score != ''"
        for score, reviews in self.db.execute(query, (title,)):
            total += Fraction(score) * reviews
            count += reviews
        if not count:
            return None
        try:
            return float(total / count)
        except OverflowError:
            return float("inf") if total > 0 else float("-inf")


class Top(Stateful):
    """q4: the highest means."""

    schema = "CREATE TABLE means (title TEXT PRIMARY KEY, mean_score REAL) WITHOUT ROWID"

    def prepare(self, message: Message) -> list[tuple[Any, ...]]:
        return to_frame(message.body).select("title", "mean_score").rows()

    def apply(self, message: Message, prepared: list[tuple[Any, ...]]) -> None:
        self.db.executemany("INSERT INTO means VALUES (?, ?)", prepared)

    def final(self, cursor: str | None) -> Piece:
        # Ranks are numbers, so the cursor of a long list is one too.
        done = int(cursor or 0)
        limit = min(self.place.piece_rows, int(self.params["q4.top"]) - done)
        rows = self.db.execute(
            """SELECT title, mean_score FROM means
               ORDER BY mean_score DESC, title LIMIT ? OFFSET ?""",
            (limit, done),
        ).fetchall()
        ranked = [(done + place, *row) for place, row in enumerate(rows, 1)]
        schema = {"rank": pl.Int64, "title": pl.String, "mean_score": pl.Float64}
        output = {"results": Keyed(pl.DataFrame(ranked, schema, orient="row"))}
        return self.piece(ranked, output)


class Sentiment(KeyedJoin):
    """q5's costly part: the polarity of every review of a book of the category."""

    earlier = "books"
    schema = (
        KeyedJoin.schema
        + """;
        CREATE TABLE sums (
            title TEXT PRIMARY KEY, reviews INTEGER NOT NULL, partials BLOB NOT NULL
        ) WITHOUT ROWID
    """
    )

    def prepare(self, message: Message) -> list[Any]:
        if message.input == self.earlier:
            return self.prepare_earlier(message)
        frame = self.joined(to_frame(message.body), "title")
        by_title: dict[str, list[float]] = {}
        values = polarities(frame["text"].to_list())
        for title, value in zip(frame["title"], values, strict=True):
            by_title.setdefault(title, []).append(value)
        return list(by_title.items())

    def apply(self, message: Message, prepared: list[Any]) -> None:
        if message.input == self.earlier:
            self.apply_earlier(prepared)
            return
        for title, values in prepared:
            row = self.db.execute(
                "SELECT reviews, partials FROM sums WHERE title = ?", (title,)
            ).fetchone()
            count, partials = (row[0], exact.unpack(row[1])) if row else (0, [])
            self.db.execute(
                "INSERT OR REPLACE INTO sums VALUES (?, ?, ?)",
                (title, count + len(values), exact.pack(exact.add(partials, values))),
            )

    def final(self, cursor: str | None) -> Piece:
        rows = self.db.execute(
            "SELECT title, reviews, partials FROM sums WHERE title > ? ORDER BY title LIMIT ?",
            (cursor or "", self.place.piece_rows),
        ).fetchall()
        means = [(title, exact.mean(exact.unpack(data), count)) for title, count, data in rows]
        schema = {"title": pl.String, "mean_polarity": pl.Float64}
        return self.piece(rows, {"q5-percentile": Keyed(pl.DataFrame(means, schema, orient="row"))})


class Percentile(Stateful):
    """q5: the books whose mean is at or above the percentile of all means."""

    schema = "CREATE TABLE means (title TEXT PRIMARY KEY, mean_polarity REAL) WITHOUT ROWID"

    def prepare(self, message: Message) -> list[tuple[Any, ...]]:
        return to_frame(message.body).select("title", "mean_polarity").rows()

    def apply(self, message: Message, prepared: list[tuple[Any, ...]]) -> None:
        self.db.executemany("INSERT INTO means VALUES (?, ?)", prepared)

    def final(self, cursor: str | None) -> Piece:
        rows = self.db.execute(
            """SELECT title, mean_polarity FROM means WHERE title > ? AND mean_polarity >= ?
               ORDER BY title LIMIT ?""",
            (cursor or "", self._cut(), self.place.piece_rows),
        ).fetchall()
        schema = {"title": pl.String, "mean_polarity": pl.Float64}
        return self.piece(rows, {"results": Keyed(pl.DataFrame(rows, schema, orient="row"))})

    def _cut(self) -> float:
        import numpy as np

        means = [row[0] for row in self.db.execute("SELECT mean_polarity FROM means")]
        return float(np.percentile(means, float(self.params["q5.percentile"]))) if means else 0.0


# -- the declaration -------------------------------------------------------------------------

BOOKS = Dataset(
    name="books",
    version=1,
    sources=(
        Source(
            "books",
            needed=("Title", "authors", "publisher", "publishedDate", "categories"),
            route=route_books,
            file_name="books_data.csv",
        ),
        Source(
            "reviews",
            needed=("Title", "review/score", "review/text"),
            numbers=frozenset({"review/score"}),
            route=route_reviews,
            file_name="Books_rating.csv",
        ),
    ),
    stages=(
        Stage("q1-filter", ("books",), TitleFilter),
        Stage("q2-decades", ("books",), Decades),
        Stage("q3-join", ("books", "reviews"), Popularity, joins=("books",)),
        Stage("q4-top", ("q3-join",), Top, keyed=False),
        Stage("q5-sentiment", ("books", "reviews"), Sentiment, joins=("books",), heavy=True),
        Stage("q5-percentile", ("q5-sentiment",), Percentile, keyed=False),
        Stage(
            "results",
            ("books", "reviews", "q1-filter", "q2-decades", "q3-join", "q4-top", "q5-percentile"),
            Results,
            keyed=False,
        ),
    ),
    queries=(
        Query(
            "q1",
            "q1-filter",
            {"title": ColumnType.TEXT, "authors": ColumnType.LIST, "publisher": ColumnType.TEXT},
            ("title",),
            "%(q1.category)s books of %(q1.from_year)s to %(q1.to_year)s "
            "with '%(q1.word)s' in the title",
        ),
        Query(
            "q2",
            "q2-decades",
            {"author": ColumnType.TEXT, "decades": ColumnType.INTEGER},
            ("author",),
            "authors with books in at least %(q2.decades)s decades",
        ),
        Query(
            "q3",
            "q3-join",
            {"title": ColumnType.TEXT, "authors": ColumnType.LIST, "reviews": ColumnType.INTEGER},
            ("title",),
            "books of %(q3.from_year)s to %(q3.to_year)s with at least %(q3.min_reviews)s reviews",
        ),
        Query(
            "q4",
            "q4-top",
            {"rank": ColumnType.INTEGER, "title": ColumnType.TEXT, "mean_score": ColumnType.REAL},
            ("rank",),
            "of those, the %(q4.top)s with the highest mean score",
        ),
        Query(
            "q5",
            "q5-percentile",
            {"title": ColumnType.TEXT, "mean_polarity": ColumnType.REAL},
            ("title",),
            "%(q5.category)s books with a mean polarity at or above percentile %(q5.percentile)g",
        ),
    ),
    params=(
        Param("q1.category", "Computers", "category that a book must hold"),
        Param("q1.from_year", 2000, "first year", 0, 9999),
        Param("q1.to_year", 2023, "last year", 0, 9999),
        Param("q1.word", "distributed", "word in the title, in any case"),
        Param("q2.decades", 10, "different decades that an author needs", 0, 10**9),
        Param("q3.from_year", 1990, "first year", 0, 9999),
        Param("q3.to_year", 1999, "last year", 0, 9999),
        Param("q3.min_reviews", 500, "reviews that a book needs", 0, 10**12),
        Param("q4.top", 10, "how many of the best", 0, 10**9),
        Param("q5.category", "Fiction", "category that a book must hold"),
        Param("q5.percentile", 90.0, "percentile of the means", 0, 100),
    ),
)
