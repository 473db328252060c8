"""The five book queries with polars, and TextBlob over a pool of two processes.

The reviews are scanned once, as a stream with the three columns that matter, joined with the
books that q3 or q5 can use; only the texts that q5 needs are kept.
"""

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from booksan.bench.baseline import CORES, Arguments, Baseline, Row, parse_arguments, write_answers
from booksan.bench.books import (
    HEADERS,
    SOURCES,
    Parameters,
    best_polarities,
    best_scores,
    in_order,
    python_list,
    start_pool,
    with_lists,
)

if TYPE_CHECKING:
    import polars as pl

BASELINE = Baseline("polars + TextBlob")


def read_books(given: Arguments[Parameters]) -> "pl.DataFrame":
    import polars as pl

    needed = ("Title", "authors", "categories")
    lists = pl.List(pl.String)
    return (
        pl.scan_csv(given.files[0], infer_schema=False)
        .filter(pl.col(name) != "" for name in needed)
        .select(
            title="Title",
            authors=pl.col("authors").map_elements(python_list, return_dtype=lists),
            publisher="publisher",
            categories=pl.col("categories").map_elements(python_list, return_dtype=lists),
            year=pl.col("publishedDate").str.extract("([0-9]{4})").cast(pl.Int32),
        )
        .filter(
            pl.col("year").is_not_null(),
            pl.col("authors").list.len() > 0,
            pl.col("categories").list.len() > 0,
        )
        .collect()
    )


def catalogue_of(books: "pl.DataFrame", wanted: Parameters) -> "pl.DataFrame":
    """One book for each title: the first in the file."""
    import polars as pl

    return books.unique("title", keep="first", maintain_order=True).select(
        "title",
        "authors",
        of_years=pl.col("year").is_between(wanted.q3_from_year, wanted.q3_to_year),
        of_category=pl.col("categories").list.contains(wanted.q5_category),
    )


def read_reviews(given: Arguments[Parameters], catalogue: "pl.DataFrame") -> "pl.DataFrame":
    import polars as pl

    useful = catalogue.filter(pl.col("of_years") | pl.col("of_category")).drop("authors")
    return (
        pl.scan_csv(given.files[1], infer_schema=False)
        .select(title="Title", score="review/score", text="review/text")
        .join(useful.lazy(), on="title")
        .with_columns(text=pl.when("of_category").then("text"))
        .collect(engine="streaming")
    )


def q1(books: "pl.DataFrame", wanted: Parameters) -> "pl.DataFrame":
    import polars as pl

    word = wanted.q1_word.lower()
    return books.filter(
        pl.col("categories").list.contains(wanted.q1_category),
        pl.col("year").is_between(wanted.q1_from_year, wanted.q1_to_year),
        pl.col("title").str.to_lowercase().str.contains(word, literal=True),
    ).select("title", "authors", "publisher")


def q2(books: "pl.DataFrame", wanted: Parameters) -> "pl.DataFrame":
    import polars as pl

    return (
        books.lazy()
        .select("authors", decade=pl.col("year") // 10)
        .explode("authors")
        .group_by(author="authors")
        .agg(decades=pl.col("decade").n_unique())
        .filter(pl.col("decades") >= wanted.q2_decades)
        .sort("author")
        .collect()
    )


def q3(reviews: "pl.DataFrame", catalogue: "pl.DataFrame", wanted: Parameters) -> "pl.DataFrame":
    import polars as pl

    counts = reviews.filter("of_years").group_by("title").agg(reviews=pl.len())
    enough = counts.filter(pl.col("reviews") >= wanted.q3_min_reviews)
    return enough.join(catalogue, on="title").select("title", "authors", "reviews").sort("title")


def q4_counts(reviews: "pl.DataFrame", titles: "pl.DataFrame") -> list[tuple[str, str, int]]:
    """How often each score was given to each of the titles."""
    import polars as pl

    return (
        reviews.lazy()
        .filter(pl.col("score") != "")
        .join(titles.lazy(), on="title", how="semi")
        .group_by("title", "score")
        .agg(pl.len())
        .collect()
        .rows()
    )


def texts(reviews: "pl.DataFrame") -> Iterator[tuple[str, str]]:
    import polars as pl

    yield from (
        reviews.lazy().select("title", "text").filter(pl.col("text") != "").collect().iter_rows()
    )


def main() -> None:
    given = parse_arguments(__doc__, Parameters, SOURCES)
    wanted = given.parameters
    os.environ["POLARS_MAX_THREADS"] = str(CORES)
    with start_pool() as pool:
        books = read_books(given)
        catalogue = catalogue_of(books, wanted)
        reviews = read_reviews(given, catalogue)
        popular = q3(reviews, catalogue, wanted)
        answers: dict[str, Iterable[Row]] = {
            "q1": in_order(q1(books, wanted).rows()),
            "q2": q2(books, wanted).rows(),
            "q3": with_lists(popular.rows()),
            "q4": best_scores(q4_counts(reviews, popular), wanted.q4_top),
            "q5": best_polarities(pool, texts(reviews), wanted.q5_percentile),
        }
        write_answers(given.out, HEADERS, answers)


if __name__ == "__main__":
    main()
