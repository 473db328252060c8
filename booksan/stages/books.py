"""The data set `books`: what its five queries need, who computes it, and who gets the answers."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import compress

import polars as pl

from booksan.sentiment import polarities
from booksan.spec import HOME
from booksan.stages.columns import frame_of, rounded
from booksan.stages.graph import Dataset, Keyed, Param, Params, Query, Source, Stage
from booksan.stages.kinds import ColumnType, FieldKind
from booksan.stages.literals import elements
from booksan.stages.operators import Filter, Group, Means, Percentile, Tally, Top, first_rows

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
    authors = [elements(text) for text in frame["authors"]]
    categories = [elements(text) for text in frame["categories"]]
    # Rows are left out before the lists are columns: long ones should not be copied for it.
    whole = [bool(one and other) for one, other in zip(authors, categories, strict=True)]
    strings = pl.List(pl.String)
    return frame.filter(whole).select(
        "row",
        "publisher",
        "year",
        title="Title",
        authors=pl.Series(list(compress(authors, whole)), dtype=strings),
        categories=pl.Series(list(compress(categories, whole)), dtype=strings),
    )


def route_books(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    books = _participating(frame)
    # Without what is there twice from the start: a list may hold a million equal elements.
    authors = pl.col("authors").list.unique(maintain_order=True)
    decades = books.select(authors, value=pl.col("year") // 10).explode("authors")
    of_years = pl.col("year").is_between(params["q3.from_year"], params["q3.to_year"])
    of_category = pl.col("categories").list.contains(pl.lit(params["q5.category"]))
    return {
        "q1-filter": Keyed(books.drop("row"), "title"),
        "q2-decades": Keyed(
            decades.select(key="authors", value=pl.col("value").cast(pl.String))
            .unique(maintain_order=True)
            .with_columns(n=pl.lit(1)),
            "key",
        ),
        "q3-join": first_rows(books, "title", of_years, "authors"),
        "q5-sentiment": first_rows(books, "title", of_category),
    }


def route_reviews(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    reviews = frame.select(
        key="Title", value=pl.col("review/score").str.strip_chars(" "), text="review/text"
    ).filter(pl.col("key") != "")
    scores = reviews.group_by("key", "value", maintain_order=True).agg(n=pl.len())
    return {
        "q3-join": Keyed(scores, "key"),
        "q5-sentiment": Keyed(reviews.filter(pl.col("text") != "").select("key", "text"), "key"),
    }


# -- the queries -----------------------------------------------------------------------------

Q1 = {"title": ColumnType.TEXT, "authors": ColumnType.LIST, "publisher": ColumnType.TEXT}
Q2 = {"author": ColumnType.TEXT, "decades": ColumnType.INTEGER}
Q3 = {"title": ColumnType.TEXT, "authors": ColumnType.LIST, "reviews": ColumnType.INTEGER}
SCORED = {"title": ColumnType.TEXT, "mean_score": ColumnType.REAL}
JUDGED = {"title": ColumnType.TEXT, "mean_polarity": ColumnType.REAL}


def of_the_subject(frame: pl.DataFrame, params: Params) -> pl.DataFrame:
    """q1: by category, year and a word in the title."""
    found = frame.filter(
        pl.col("categories").list.contains(pl.lit(params["q1.category"])),
        pl.col("year").is_between(params["q1.from_year"], params["q1.to_year"]),
    )
    # Python's lower case for both: libraries differ about a few letters.
    word = str(params["q1.word"]).lower()
    named = pl.Series([word in title.lower() for title in found["title"]], dtype=pl.Boolean)
    return found.filter(named).select(*Q1)


def long_lived(authors: list[Group], params: Params) -> Mapping[str, Keyed]:
    """q2: authors with books in many different decades."""
    least = int(params["q2.decades"])
    found = [(one.key, len(one.counts)) for one in authors if len(one.counts) >= least]
    return {HOME: Keyed(frame_of(found, Q2))}


def popular(books: list[Group], params: Params) -> Mapping[str, Keyed]:
    """q3, and the means of q4 from how often each score was given."""
    least = int(params["q3.min_reviews"])
    found = [book for book in books if book.total >= least]
    means = [(book.key, mean) for book in found if (mean := mean_score(book.counts)) is not None]
    return {
        HOME: Keyed(frame_of([(book.key, *book.kept, book.total) for book in found], Q3)),
        "q4-top": Keyed(frame_of(means, SCORED)),
    }


def mean_score(counts: list[tuple[str, int]]) -> float | None:
    """The exact mean of the scores, rounded once; None without any score."""
    scores = [(Fraction(score), n) for score, n in counts if score]
    total = sum(n for _, n in scores)
    return rounded(sum(score * n for score, n in scores) / Fraction(total)) if total else None


# -- the declaration -------------------------------------------------------------------------

DATASET = Dataset(
    name="books",
    version=3,
    about="books and their reviews: authors, scores, and the mood of the texts",
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
            kinds={"review/score": FieldKind.NUMBER},
            route=route_reviews,
            file_name="Books_rating.csv",
        ),
    ),
    stages=(
        Stage("q1-filter", ("books",), Filter(of_the_subject), key="title"),
        Stage("q2-decades", ("books",), Tally(long_lived), key="author"),
        Stage(
            "q3-join",
            ("books", "reviews"),
            Tally(popular, earlier="books", keep=("authors",)),
            joins=("books",),
            key="title",
        ),
        Stage("q4-top", ("q3-join",), Top("q4.top", SCORED, ("-mean_score", "title")), keyed=False),
        Stage(
            "q5-sentiment",
            ("books", "reviews"),
            Means(polarities, to="q5-percentile", names=tuple(JUDGED), earlier="books"),
            joins=("books",),
            heavy=True,
            key="title",
        ),
        Stage(
            "q5-percentile",
            ("q5-sentiment",),
            Percentile("q5.percentile", JUDGED, of="mean_polarity"),
            keyed=False,
        ),
    ),
    queries=(
        Query(
            "q1",
            "q1-filter",
            Q1,
            ("title",),
            "%(q1.category)s books of %(q1.from_year)s to %(q1.to_year)s "
            "with '%(q1.word)s' in the title",
        ),
        Query(
            "q2",
            "q2-decades",
            Q2,
            ("author",),
            "authors with books in at least %(q2.decades)s decades",
        ),
        Query(
            "q3",
            "q3-join",
            Q3,
            ("title",),
            "books of %(q3.from_year)s to %(q3.to_year)s with at least %(q3.min_reviews)s reviews",
        ),
        Query(
            "q4",
            "q4-top",
            {"rank": ColumnType.INTEGER, **SCORED},
            ("rank",),
            "of those, the %(q4.top)s with the highest mean score",
        ),
        Query(
            "q5",
            "q5-percentile",
            JUDGED,
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
