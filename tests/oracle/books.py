"""The answers of the data set books, straight from the definition of its queries.

python -m tests.oracle.books BOOKS REVIEWS OUTDIR [--set q3.min_reviews=5 ...]
"""

from __future__ import annotations

import ast
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy
from textblob import TextBlob

from tests.oracle.common import (
    NO_PARAMS,
    Cells,
    Defaults,
    Params,
    command,
    csv_file,
    json_list,
    rejected_of,
    rounded,
    year_in,
)
from tests.oracle.kinds import number, unless_lacking
from tests.oracle.reader import NO_KINDS, Kind, rows

DEFAULTS: Defaults = MappingProxyType(
    {
        "q1.category": "Computers",
        "q1.from_year": 2000,
        "q1.to_year": 2023,
        "q1.word": "distributed",
        "q2.decades": 10,
        "q3.from_year": 1990,
        "q3.to_year": 1999,
        "q3.min_reviews": 500,
        "q4.top": 10,
        "q5.category": "Fiction",
        "q5.percentile": 90.0,
    }
)
NEEDED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "books": ("Title", "authors", "publisher", "publishedDate", "categories"),
        "reviews": ("Title", "review/score", "review/text"),
    }
)
KINDS: Mapping[str, Mapping[str, Kind]] = MappingProxyType(
    {"books": NO_KINDS, "reviews": {"review/score": number}}
)


@dataclass(frozen=True)
class Book:
    """A row of books that takes part."""

    title: str
    authors: list[str]
    categories: list[str]
    publisher: str
    year: int


@dataclass(frozen=True)
class Review:
    """A row of reviews that takes part; score is None and text is empty where lacking."""

    title: str
    score: Fraction | None
    text: str


def answers(
    books: Path, reviews: Path, params: Mapping[str, object] = NO_PARAMS
) -> dict[str, bytes]:
    """The result files q1 to q5 as they must be written."""
    settings = Params(DEFAULTS, params)
    every_book = participants(books)
    every_review = opinions(reviews)
    by_title = first_of_each_title(every_book)
    popular = _popular(by_title, every_review, settings)
    return {
        "q1": csv_file(("title", "authors", "publisher"), q1(every_book, settings)),
        "q2": csv_file(("author", "decades"), q2(every_book, settings)),
        "q3": csv_file(("title", "authors", "reviews"), q3(by_title, popular)),
        "q4": csv_file(("rank", "title", "mean_score"), q4(popular, every_review, settings)),
        "q5": csv_file(("title", "mean_polarity"), q5(by_title, every_review, settings)),
    }


def rejected(path: Path, source: str) -> list[int]:
    """The numbers of the rows that cannot be read."""
    return rejected_of(rows(path, NEEDED[source], KINDS[source]))


def participants(path: Path) -> list[Book]:
    """The books that lack nothing, in file order."""
    found = []
    for _, row in rows(path, NEEDED["books"], KINDS["books"]):
        if row is None:
            continue
        authors, categories = elements(row["authors"]), elements(row["categories"])
        year = year_in(row["publishedDate"])
        if row["Title"] and authors and categories and year is not None:
            book = Book(row["Title"], authors, categories, row["publisher"], year)
            found.append(book)
    return found


def opinions(path: Path) -> list[Review]:
    """The reviews that have a title, in file order."""
    found = []
    for _, row in rows(path, NEEDED["reviews"], KINDS["reviews"]):
        if row is None or row["Title"] == "":
            continue
        score = unless_lacking(number, row["review/score"])
        found.append(Review(row["Title"], score, row["review/text"]))
    return found


def elements(text: str) -> list[str]:
    """The elements of a list literal; any other text is one element; nothing where lacking."""
    if text == "":
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
        if not isinstance(value, list):
            return [text]
        if any(isinstance(element, list | tuple | set | dict) for element in value):
            return [text]
        found = [str(element) for element in value]
        "".join(found).encode("utf-8")
    except (
        ValueError,
        SyntaxError,
        TypeError,
        OverflowError,
        MemoryError,
        RecursionError,
    ):
        return [text]
    return [element for element in found if element != ""]


def first_of_each_title(books: Iterable[Book]) -> dict[str, Book]:
    """The book that a title stands for in q3, q4 and q5."""
    found: dict[str, Book] = {}
    for book in books:
        found.setdefault(book.title, book)
    return found


@lru_cache(maxsize=20_000)
def polarity(text: str) -> float:
    """The polarity of one review text."""
    return float(TextBlob(text).sentiment.polarity)


def q1(books: Iterable[Book], settings: Params) -> Sequence[Cells]:
    """Books of a category and some years with a word in the title."""
    first, last = settings.whole("q1.from_year"), settings.whole("q1.to_year")
    word = settings.text("q1.word").lower()
    return sorted(
        (book.title, json_list(book.authors), book.publisher)
        for book in books
        if settings.text("q1.category") in book.categories
        and first <= book.year <= last
        and word in book.title.lower()
    )


def q2(books: Iterable[Book], settings: Params) -> Sequence[Cells]:
    """Authors with books in many decades."""
    decades: dict[str, set[int]] = defaultdict(set)
    for book in books:
        for author in book.authors:
            decades[author].add(book.year // 10)
    least = settings.whole("q2.decades")
    return sorted((author, len(own)) for author, own in decades.items() if len(own) >= least)


def q3(by_title: Mapping[str, Book], popular: Mapping[str, int]) -> Sequence[Cells]:
    """Books of some years with many reviews."""
    return sorted(
        (title, json_list(by_title[title].authors), count) for title, count in popular.items()
    )


def q4(popular: Mapping[str, int], reviews: Iterable[Review], settings: Params) -> Sequence[Cells]:
    """The books of q3 with the highest mean score."""
    scores: dict[str, list[Fraction]] = defaultdict(list)
    for review in reviews:
        if review.title in popular and review.score is not None:
            scores[review.title].append(review.score)
    means = [(title, rounded(sum(own, Fraction(0)) / len(own))) for title, own in scores.items()]
    means.sort(key=lambda pair: (-pair[1], pair[0]))
    best = means[: settings.whole("q4.top")]
    return [(rank, title, mean) for rank, (title, mean) in enumerate(best, start=1)]


def q5(
    by_title: Mapping[str, Book], reviews: Iterable[Review], settings: Params
) -> Sequence[Cells]:
    """Books of a category whose mean polarity is among the highest."""
    category = settings.text("q5.category")
    values: dict[str, list[float]] = defaultdict(list)
    for review in reviews:
        book = by_title.get(review.title)
        if book is not None and category in book.categories and review.text != "":
            values[review.title].append(polarity(review.text))
    means = {title: math.fsum(own) / len(own) for title, own in values.items()}
    if not means:
        return []
    cut = numpy.percentile(list(means.values()), settings.real("q5.percentile"))
    return sorted((title, mean) for title, mean in means.items() if mean >= cut)


def _popular(
    by_title: Mapping[str, Book], reviews: Iterable[Review], settings: Params
) -> dict[str, int]:
    """The titles of q3 with their numbers of reviews."""
    first, last = settings.whole("q3.from_year"), settings.whole("q3.to_year")
    counts = {title: 0 for title, book in by_title.items() if first <= book.year <= last}
    for review in reviews:
        if review.title in counts:
            counts[review.title] += 1
    least = settings.whole("q3.min_reviews")
    return {title: count for title, count in counts.items() if count >= least}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write q1.csv to q5.csv into a directory."""
    command("books", NEEDED, answers, arguments)


if __name__ == "__main__":
    main()
