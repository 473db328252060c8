"""The rows of books_data.csv, and which titles their reviews may name.

Most books are ordinary. Some have a part to play, so that every query has something to find, and
something close to it that must not be found: bestsellers, books on distributed computing, and
authors whose books span a century.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from booksan.generate import fields, words
from booksan.generate.chance import Chance, Quantiles
from booksan.generate.files import Row
from booksan.generate.sentences import sentences

COLUMNS = (
    *("Title", "description", "authors", "image", "previewLink", "publisher", "publishedDate"),
    *("infoLink", "categories", "ratingsCount"),
)
DESCRIPTION = COLUMNS.index("description")

#: Titles of each sort that are remembered: books beyond them get no reviews.
REMEMBERED = 250_000
_FICTION_BESTSELLERS = 8
_OTHER_BESTSELLERS = 20
_BESTSELLER_YEARS = (1990, 1994, 1989, 1999, 1996, 2000, 1991, 1997, 1978, 1993, 1998, 2004)
#: Categories and year of the books on distributed computing, in turn.
_DISTRIBUTED = (
    (["Computers"], 2000),
    (["Computers"], 2023),
    (["Computers"], 2005),
    (["Science"], 2008),
    (["Computers"], 1999),
    (["Computers", "Mathematics"], 2013),
    (["Computers"], 2024),
    (["Computers"], 2010),
)
_LENGTHS = Quantiles(((0.0, 1), (0.5, 5), (0.8, 11), (0.97, 20), (1.0, 45)))
_LACKING = ("", "[]", "['']")
_YEAR = re.compile("[0-9]{4}")


class Book(NamedTuple):
    title: str
    authors: str
    date: str
    categories: str

    @property
    def takes_part(self) -> bool:
        """Whether the queries look at it at all."""
        if not self.title or self.authors in _LACKING or self.categories in _LACKING:
            return False
        return _YEAR.search(self.date) is not None

    @property
    def fiction(self) -> bool:
        return "'Fiction'" in self.categories


@dataclass
class Shelf:
    """Titles of one sort: some that everybody reviews, and the others."""

    bestsellers: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.bestsellers or self.others)


@dataclass
class Shelves:
    """Every title is on the shelf to which the first of its books that takes part belongs."""

    fiction: Shelf = field(default_factory=Shelf)
    other: Shelf = field(default_factory=Shelf)
    lacking: list[str] = field(default_factory=list)

    def put(self, book: Book, bestseller: bool) -> None:
        if not book.takes_part:
            if book.title and len(self.lacking) < REMEMBERED:
                self.lacking.append(book.title)
            return
        shelf = self.fiction if book.fiction else self.other
        titles = shelf.bestsellers if bestseller else shelf.others
        if len(titles) < REMEMBERED:
            titles.append(book.title)


class Catalogue:
    """Makes the rows, one by one; the shelves are complete when all rows were made."""

    def __init__(self, books: int, seed: int) -> None:
        self.shelves = Shelves()
        self._books = books
        self._chance = Chance(seed, "books")
        self._titles = fields.Titles(self._chance)
        self._texts = sentences("even", 800, self._chance) + sentences("glad", 200, self._chance)
        self._prolific = max(3, min(40, books // 1600))
        self._parts = self._cast()

    def rows(self) -> Iterator[Row]:
        for i in range(self._books):
            part, k = self._parts.get(i, ("", 0))
            if part == "fiction" or part == "other":
                yield self._row(self._bestseller(k, part == "fiction"))
            elif part == "distributed":
                yield self._row(self._distributed(k))
            elif part == "prolific":
                yield self._row(self._by_prolific(k))
            elif self._chance.happens(0.03):
                yield self._row(self._again())
            else:
                yield self._row(self._ordinary())

    def _cast(self) -> dict[int, tuple[str, int]]:
        """Which book plays which part: at most a third of them play any."""
        few = self._books // 12
        numbers = {
            "fiction": min(_FICTION_BESTSELLERS, few),
            "other": min(_OTHER_BESTSELLERS, few),
            "distributed": max(min(12, few), self._books // 1000),
            "prolific": max(min(45, self._books // 8), self._books // 97),
        }
        parts = [(part, k) for part, number in numbers.items() for k in range(number)]
        return dict(zip(self._chance.distinct(len(parts), self._books), parts, strict=True))

    def _bestseller(self, k: int, fiction: bool) -> Book:
        year = _BESTSELLER_YEARS[k % len(_BESTSELLER_YEARS)]
        categories = ["Fiction"] if fiction else ["Biography & Autobiography"]
        return self._placed(self._whole(self._titles.next(), year, categories), bestseller=True)

    def _distributed(self, k: int) -> Book:
        categories, year = _DISTRIBUTED[k % len(_DISTRIBUTED)]
        return self._placed(self._whole(fields.distributed_title(k), year, categories))

    def _by_prolific(self, k: int) -> Book:
        """Authors with 9 to 14 decades; 9 are not enough for the query."""
        turn, number = divmod(k, self._prolific)
        decade = 201 - turn % (9 + (number + 3) % 6)
        book = self._whole(self._titles.next(), decade * 10 + self._chance.below(10), ["History"])
        names = [fields.prolific_name(number)]
        if self._chance.happens(0.3):
            names.insert(self._chance.below(2), fields.name(self._chance))
        return self._placed(book._replace(authors=repr(names)))

    def _ordinary(self) -> Book:
        chance = self._chance
        title = "" if chance.happens(0.002) else self._titles.next()
        authors, date = fields.authors(chance), fields.any_date(chance)
        book = Book(title, authors, date, fields.categories(chance))
        return book if chance.happens(0.04) and book.takes_part else self._placed(book)

    def _again(self) -> Book:
        """A title for the second time, with another year and category."""
        chance, shelves = self._chance, self.shelves
        if shelves.lacking and chance.happens(0.3):
            title = shelves.lacking.pop(chance.below(len(shelves.lacking)))
            return self._placed(self._whole(title, fields.year(chance), ["Fiction"]))
        shelf = chance.pick((shelves.fiction, shelves.other))
        titles = shelf.bestsellers if chance.happens(0.2) else shelf.others
        if not titles:
            return self._ordinary()
        category = chance.pick(("Fiction", "Poetry", "Computers"))
        return self._whole(chance.pick(titles), fields.year(chance), [category])

    def _whole(self, title: str, year: int, categories: list[str]) -> Book:
        """A book that lacks nothing."""
        date = fields.date(year, self._chance)
        authors = [fields.name(self._chance) for _ in range(1 + self._chance.below(2))]
        return Book(title, repr(authors), date, repr(categories))

    def _placed(self, book: Book, bestseller: bool = False) -> Book:
        self.shelves.put(book, bestseller)
        return book

    def _row(self, book: Book) -> Row:
        chance = self._chance
        code = fields.code(12, chance)
        link = f"http://books.example.org/books?id={code}&q={book.title.replace(' ', '+')}&hl="
        linked = not chance.happens(0.024)
        image = f"http://books.example.org/content?id={code}&printsec=frontcover&img=1&zoom=1"
        return [
            book.title,
            self._description(),
            book.authors,
            "" if chance.happens(0.185) else image,
            f"{link}&cd=1&source=api" if linked else "",
            self._publisher(),
            book.date,
            f"{link}&source=api" if linked else "",
            book.categories,
            "" if chance.happens(0.77) else f"{1 + chance.skewed(4000)}.0",
        ]

    def _publisher(self) -> str:
        return "" if self._chance.happens(0.316) else self._chance.pick(words.PUBLISHERS)

    def _description(self) -> str:
        chance = self._chance
        if chance.happens(0.278):
            return ""
        count = int(_LENGTHS.at(chance.random()))
        glue = "\n" if chance.happens(0.01) else " "
        return glue.join([chance.pick(self._texts) for _ in range(count)])
