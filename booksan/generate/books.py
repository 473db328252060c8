"""The data set `books`: books_data.csv and Books_rating.csv, made from a seed.

The files have the columns of the public ones, their proportions and their warts. The same
arguments give the same bytes everywhere.
"""

from pathlib import Path

from booksan.generate import catalogue, opinions
from booksan.generate.chance import Chance
from booksan.generate.dirt import Dirt
from booksan.generate.files import Progress, Written
from booksan.generate.generator import Generated, Generator, prepare, write_rows

BOOKS_FILE = "books_data.csv"
REVIEWS_FILE = "Books_rating.csv"

#: Reviews for one book, unless the number of books is given: few, so that many books have some.
REVIEWS_PER_BOOK = 10


class GeneratedBooks(Generated):
    """The two files that were written, by their names."""

    @property
    def books(self) -> Written:
        return self.first

    @property
    def reviews(self) -> Written:
        return self.second


def generate_books(
    out: Path,
    *,
    books: int,
    reviews: int,
    seed: int,
    dirty: bool = False,
    progress: Progress | None = None,
) -> GeneratedBooks:
    """Write both files into the directory `out`.

    A dirty file holds the rows of the clean one, and bad records between them. Now and then
    `progress` is called with the number of rows written since the last call.
    """
    prepare(out, books, reviews)
    shop = catalogue.Catalogue(books, seed)
    path, rows = out / BOOKS_FILE, shop.rows()
    dirt = Dirt(Chance(seed, "dirty books"), text=catalogue.DESCRIPTION) if dirty else None
    first = write_rows(path, catalogue.COLUMNS, rows, books, dirt=dirt, progress=progress)
    path, rows = out / REVIEWS_FILE, opinions.Opinions(shop.shelves, seed).rows(reviews)
    if dirty:
        chance = Chance(seed, "dirty reviews")
        dirt = Dirt(chance, text=opinions.TEXT, number=opinions.SCORE, oversized=True)
    second = write_rows(path, opinions.COLUMNS, rows, reviews, dirt=dirt, progress=progress)
    return GeneratedBooks(first, second)


def _generate(
    out: Path,
    *,
    rows: int,
    seed: int,
    dirty: bool = False,
    progress: Progress | None = None,
    first_rows: int | None = None,
) -> Generated:
    books = rows // REVIEWS_PER_BOOK if first_rows is None else first_rows
    return generate_books(out, books=books, reviews=rows, seed=seed, dirty=dirty, progress=progress)


GENERATOR = Generator(
    files=(BOOKS_FILE, REVIEWS_FILE),
    rows_help="reviews",
    generate=_generate,
    options={"books": "first_rows", "reviews": "rows"},
)
