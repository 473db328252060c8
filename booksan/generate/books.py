"""The data set `books`: books_data.csv and Books_rating.csv, made from a seed.

The files have the columns of the public ones, their proportions and their warts. The same
arguments give the same bytes everywhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from booksan.errors import UsageError
from booksan.generate import catalogue, opinions
from booksan.generate.chance import Chance
from booksan.generate.dirt import Dirt
from booksan.generate.files import Progress, Row, Written, records, write

BOOKS_FILE = "books_data.csv"
REVIEWS_FILE = "Books_rating.csv"


@dataclass(frozen=True)
class Generated:
    """The two files that were written."""

    books: Written
    reviews: Written

    @property
    def paths(self) -> tuple[Path, Path]:
        return self.books.path, self.reviews.path

    @property
    def rows(self) -> int:
        return self.books.rows + self.reviews.rows

    @property
    def bytes(self) -> int:
        return self.books.bytes + self.reviews.bytes


def generate_books(
    out: Path,
    *,
    books: int,
    reviews: int,
    seed: int,
    dirty: bool = False,
    progress: Progress | None = None,
) -> Generated:
    """Write both files into the directory `out`.

    A dirty file holds the rows of the clean one, and bad records between them. Now and then
    `progress` is called with the number of rows written since the last call.
    """
    if books < 0 or reviews < 0:
        raise UsageError(f"cannot make {books} books and {reviews} reviews: use numbers from 0 on")
    out.mkdir(parents=True, exist_ok=True)
    shop = catalogue.Catalogue(books, seed)
    dirt = Dirt(Chance(seed, "dirty books"), text=catalogue.DESCRIPTION) if dirty else None
    first = _file(out / BOOKS_FILE, catalogue.COLUMNS, shop.rows(), books, dirt, progress)
    rows = opinions.Opinions(shop.shelves, seed).rows(reviews)
    if dirty:
        chance = Chance(seed, "dirty reviews")
        dirt = Dirt(chance, text=opinions.TEXT, number=opinions.SCORE, oversized=True)
    second = _file(out / REVIEWS_FILE, opinions.COLUMNS, rows, reviews, dirt, progress)
    return Generated(first, second)


def _file(
    path: Path,
    columns: tuple[str, ...],
    rows: Iterable[Row],
    total: int,
    dirt: Dirt | None,
    progress: Progress | None,
) -> Written:
    if dirt is None:
        return write(path, columns, records(rows), progress)
    written = write(path, columns, dirt.records(rows, total), progress)
    return replace(written, bad=dirt.bad)
