"""What both baselines share: arguments, list literals, the pool for TextBlob, result files.

A baseline is run as `python -m booksan.bench.duckdb_books BOOKS REVIEWS OUT [--set k=v ...]`.
"""

import argparse
import ast
import csv
import functools
import json
import math
import multiprocessing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from multiprocessing.pool import Pool
from pathlib import Path

#: Threads of the engine and processes of the pool: the two cores of a small laptop.
CORES = 2
#: Texts handed to a process of the pool at once: some 50 KB, tens of milliseconds of work.
CHUNK = 64

HEADERS = {
    "q1": ("title", "authors", "publisher"),
    "q2": ("author", "decades"),
    "q3": ("title", "authors", "reviews"),
    "q4": ("rank", "title", "mean_score"),
    "q5": ("title", "mean_polarity"),
}

Row = Sequence[object]


@dataclass(frozen=True)
class Parameters:
    """The thresholds of the queries; `q1_from_year` is `q1.from_year` on the command line."""

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

    @classmethod
    def parse(cls, pairs: Iterable[str]) -> "Parameters":
        """Raise ValueError for a name that is unknown or a value of the wrong kind."""
        names = {field.name.replace("_", ".", 1): field.name for field in fields(cls)}
        parameters = cls()
        for pair in pairs:
            name, equals, text = pair.partition("=")
            if not equals or name not in names:
                raise ValueError(f"{pair!r} is not one of {', '.join(names)} with =value")
            field = names[name]
            parameters = replace(parameters, **{field: type(getattr(parameters, field))(text)})
        return parameters


@dataclass(frozen=True)
class Arguments:
    books: Path
    reviews: Path
    out: Path
    parameters: Parameters


def parse_arguments(description: str | None) -> Arguments:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("books", type=Path)
    parser.add_argument("reviews", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="k=v")
    options = parser.parse_args()
    try:
        parameters = Parameters.parse(options.settings)
    except ValueError as error:
        parser.error(str(error))
    return Arguments(options.books, options.reviews, options.out, parameters)


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
    written = [tuple(str(_cell(value) or "") for value in row) for row in rows]
    return [*sorted(written)]


def write_answer(out: Path, query: str, rows: Iterable[Row]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{query}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADERS[query])
        for row in rows:
            writer.writerow([_cell(value) for value in row])


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
