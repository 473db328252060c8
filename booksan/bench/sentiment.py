"""`booksan bench sentiment`: TextBlob against `booksan.sentiment`, on the same texts.

"Cold" is the first pass of booksan over the texts, in which its tables of words fill; "warm" is a
second pass over the same texts. Loading the lexicon, numpy and nltk belongs to neither.
"""

import csv
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from booksan.bench.books import books_for
from booksan.errors import InputError
from booksan.generate.books import generate_books
from booksan.sentiment.analyser import MANY

TEXT = "review/text"
#: Differences that are shown; all of them are counted.
EXAMPLES = 5
FIELD_LIMIT = 1 << 22

Polarities = Callable[[list[str]], list[float]]


@dataclass(frozen=True)
class SentimentReport:
    texts: str
    reviews: int
    textblob_us: float
    cold_us: float
    warm_us: float
    cold_ratio: float
    warm_ratio: float
    differences: int
    examples: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def bench_sentiment(
    name: str, texts: list[str], *, fast: Polarities | None = None
) -> SentimentReport:
    if not texts:
        raise InputError(f"{name} has no review texts")
    fast = fast or _booksan()
    fast([""])
    textblob_polarities([""])
    cold, cold_us = _timed(fast, texts)
    warm, warm_us = _timed(fast, texts)
    slow, textblob_us = _timed(textblob_polarities, texts)
    wrong = list(_differences(texts, slow, cold, warm))
    return SentimentReport(
        texts=name,
        reviews=len(texts),
        textblob_us=textblob_us,
        cold_us=cold_us,
        warm_us=warm_us,
        cold_ratio=textblob_us / cold_us,
        warm_ratio=textblob_us / warm_us,
        differences=len(wrong),
        examples=tuple(wrong[:EXAMPLES]),
    )


def bench_in_fresh_process(name: str, texts: list[str]) -> SentimentReport:
    """A process of its own: tables that another measurement filled are not cold."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(bench_sentiment, name, texts).result()


def textblob_polarities(texts: list[str]) -> list[float]:
    from textblob import TextBlob

    return [TextBlob(text).sentiment.polarity for text in texts]


def _booksan() -> Polarities:
    """With all loaded, vectors for long columns included."""
    from booksan.sentiment import polarities

    polarities(["x" * MANY])
    return polarities


def _timed(polarities: Polarities, texts: list[str]) -> tuple[list[float], float]:
    begin = time.perf_counter()
    values = polarities(texts)
    return values, (time.perf_counter() - begin) / len(texts) * 1e6


def _differences(
    texts: list[str], expected: list[float], cold: list[float], warm: list[float]
) -> Iterator[str]:
    """To the last bit: 0.0 and -0.0 are two answers."""
    for text, right, first, second in zip(texts, expected, cold, warm, strict=True):
        if not float(right).hex() == float(first).hex() == float(second).hex():
            yield f"expected {right!r}, found {first!r} and then {second!r}: {text[:80]!r}"


def generated_texts(reviews: int, seed: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="booksan-bench-") as name:
        made = generate_books(Path(name), books=books_for(reviews), reviews=reviews, seed=seed)
        return file_texts(made.reviews.path, reviews)


def file_texts(path: Path, limit: int) -> list[str]:
    """The first texts of a reviews file."""
    csv.field_size_limit(FIELD_LIMIT)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if TEXT not in (rows.fieldnames or ()):
                raise InputError(f"{path} has no column {TEXT}: give a reviews file")
            return list(islice((row[TEXT] for row in rows if row[TEXT]), limit))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
