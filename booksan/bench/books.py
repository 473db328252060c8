"""What the baselines of `books` share: parameters, list literals, the pool for TextBlob."""

import ast
import functools
import json
import math
import multiprocessing
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.pool import Pool

from booksan.bench.baseline import CORES, Row

SOURCES = ("books", "reviews")
HEADERS = {
    "q1": ("title", "authors", "publisher"),
    "q2": ("author", "decades"),
    "q3": ("title", "authors", "reviews"),
    "q4": ("rank", "title", "mean_score"),
    "q5": ("title", "mean_polarity"),
}

#: Reviews for each book, as in the public data set (3,000,000 of 212,404, rounded).
REVIEWS_PER_BOOK = 12
#: Texts handed to a process of the pool at once: some 50 KB, tens of milliseconds of work.
CHUNK = 64


@dataclass(frozen=True)
class Parameters:
    q1_category: str = "Computers"
    q1_from_year: int = 2000
    q1_to_year: int = 2023
    q1_word: str = "distributed"
    q2_decades: int = 10
    q3_from_year: int = 1990
    q3_to_year: int = 1999
    q3_min_reviews: int = 500
    q4_top: int = 10
    q5_category: str = "Fiction"
    q5_percentile: float = 90.0


def books_for(reviews: int) -> int:
    return max(1, reviews // REVIEWS_PER_BOOK)


@functools.lru_cache(maxsize=1 << 16)
def python_list(text: str) -> list[str]:
    """The elements of a list literal; a text that is none is one element.

    Few categories and many books: most literals have been seen before.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return [text]
    if not isinstance(value, list):
        return [text]
    return [str(element) for element in value if element != ""]


def polarity_of(row: tuple[str, str]) -> tuple[str, float]:
    """Runs in the pool: the title of a review and the polarity of its text."""
    from textblob import TextBlob

    title, text = row
    return title, TextBlob(text).sentiment.polarity


def start_pool() -> Pool:
    """Fork before the engine starts its threads, and after TextBlob has loaded its lexicon."""
    polarity_of(("", "good"))
    return multiprocessing.get_context("fork").Pool(CORES)


def best_polarities(
    pool: Pool, reviews: Iterable[tuple[str, str]], percentile: float
) -> Iterator[Row]:
    """The titles whose mean polarity is at or above the percentile of all means."""
    import numpy as np

    polarities: defaultdict[str, list[float]] = defaultdict(list)
    # fsum does not depend on the order, so the pool may answer in any.
    for title, polarity in pool.imap_unordered(polarity_of, reviews, chunksize=CHUNK):
        polarities[title].append(polarity)
    means = {title: math.fsum(values) / len(values) for title, values in polarities.items()}
    if not means:
        return
    cut = np.percentile(list(means.values()), percentile)
    for title in sorted(means):
        if means[title] >= cut:
            yield title, means[title]


def best_scores(counts: Iterable[tuple[str, str, int]], top: int) -> Iterator[Row]:
    """Rank titles by mean, from how often each score was given; scores are decimals, as text."""
    totals: defaultdict[str, Fraction] = defaultdict(Fraction)
    reviews: defaultdict[str, int] = defaultdict(int)
    for title, score, count in counts:
        totals[title] += Fraction(score) * count
        reviews[title] += count
    means = {title: total / reviews[title] for title, total in totals.items()}
    ranked = sorted(means, key=lambda title: (-means[title], title))
    for rank, title in enumerate(ranked[:top], start=1):
        yield rank, title, float(means[title])


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows of texts and lists, sorted as they are written; a missing text is an empty one."""
    written = [tuple(str(value or "") for value in row) for row in with_lists(rows)]
    return [*sorted(written)]


def with_lists(rows: Iterable[Row]) -> Iterator[Row]:
    """Lists as they are written."""
    for row in rows:
        yield [
            json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
            for value in row
        ]
