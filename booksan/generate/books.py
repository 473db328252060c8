"""The data set `books`, made from a seed."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from booksan.generate import catalogue, words
from booksan.generate.catalogue import Shelf, Shelves
from booksan.generate.generator import (
    Chance,
    Dirt,
    Files,
    Generated,
    Generator,
    Progress,
    Quantiles,
    Row,
    Written,
    weighted,
)

# The rows of Books_rating.csv.

COLUMNS = (
    *("Id", "Title", "Price", "User_id", "profileName", "review/helpfulness", "review/score"),
    *("review/time", "review/summary", "review/text"),
)
SCORE = COLUMNS.index("review/score")
TEXT = COLUMNS.index("review/text")

#: The share of reviews on Fiction books, as in the public data set.
FICTION_SHARE = 0.26
#: How far the number of such reviews may stray from the share: no pattern, yet always close.
_STRAY = 60
_BESTSELLER_SHARE = 0.4
_USERS = 4000
#: Bytes of a text by share of reviews: log-normal, with a mean of about 750.
_LENGTHS = Quantiles(
    (
        *((0.0, 5), (0.02, 60), (0.05, 118), (0.1, 150), (0.25, 260), (0.5, 480), (0.75, 880)),
        *((0.9, 1600), (0.95, 2250), (0.99, 4300), (0.999, 9000), (0.9998, 18000), (1.0, 29000)),
    )
)
_SENTENCE = 92
_SHORT = 40
_GLUES = weighted(((" ", 75), ("", 23), ("\n", 1), ("\n\n", 1)))
_HELPFULNESS = weighted(
    (
        *(("0/0", 50), ("1/1", 14), ("2/2", 7), ("2/3", 5), ("3/3", 4), ("1/2", 4), ("0/1", 4)),
        *(("4/4", 3), ("3/4", 2), ("6/7", 2), ("0/3", 1), ("8/9", 1), ("15/17", 1), ("60/112", 1)),
    )
)
#: Scores of a book by its quality; the mean over all is about 4.2.
_SCORES = [
    weighted(zip(("5.0", "4.0", "3.0", "2.0", "1.0"), weights, strict=True))
    for weights in (
        *((80, 14, 3, 2, 1), (74, 16, 6, 2, 2), (68, 19, 7, 3, 3), (62, 21, 9, 4, 4)),
        *((56, 22, 11, 5, 6), (50, 24, 12, 6, 8), (44, 24, 14, 8, 10), (38, 22, 16, 10, 14)),
    )
]
#: Sentences of each tone (glad, even, sad) in a hundred, by score.
_TONES = {
    "5.0": (50, 48, 2),
    "4.0": (42, 54, 4),
    "3.0": (26, 58, 16),
    "2.0": (10, 56, 34),
    "1.0": (5, 50, 45),
    "": (25, 50, 25),
}


class Pool:
    """The texts from which the reviews with one score are put together."""

    def __init__(self, score: str, chance: Chance) -> None:
        tones = dict(zip(("glad", "even", "sad"), _TONES[score], strict=True))
        self.sentences: list[str] = []
        self.remarks: list[str] = []
        self.summaries: list[str] = []
        for tone, share in tones.items():
            self.sentences += catalogue.sentences(tone, share * 20, chance)
            self.summaries += catalogue.summaries(tone, share * 5, chance)
            self.remarks += catalogue.remarks(tone) * share


class Opinions:
    """Reviews come in runs on one edition of a book, as in the public file."""

    def __init__(self, shelves: Shelves, seed: int) -> None:
        self._chance = Chance(seed, "reviews")
        self._shelves = shelves
        self._strangers = self._without_books()
        self._pools = {score: Pool(score, self._chance) for score in _TONES}
        self._users = [self._user() for _ in range(_USERS)]
        self._foreign = catalogue.foreign()

    def rows(self, reviews: int) -> Iterator[Row]:
        chance = self._chance
        made = of_fiction = 0
        while made < reviews:
            stray = (chance.random() - 0.5) * _STRAY
            fiction = bool(self._shelves.fiction) and of_fiction < FICTION_SHARE * made + stray
            title, number = self._fiction() if fiction else self._no_fiction()
            for row in self._run(title, number, reviews - made):
                of_fiction += fiction and row[1] != ""
                made += 1
                yield row

    def _fiction(self) -> tuple[str, int]:
        return self._from(self._shelves.fiction, 0)

    def _no_fiction(self) -> tuple[str, int]:
        """A title of another book, of one that takes no part, or of none at all."""
        shelves, chance = self._shelves, self._chance
        sort = chance.random()
        if not shelves.other or sort < 0.04:
            return self._strangers[i := chance.skewed(len(self._strangers))], i * 4 + 1
        if shelves.lacking and sort < 0.12:
            return shelves.lacking[i := chance.skewed(len(shelves.lacking))], i * 4 + 2
        return self._from(shelves.other, 3)

    def _from(self, shelf: Shelf, sort: int) -> tuple[str, int]:
        """A title of the shelf, and a number of its own."""
        chance, best, others = self._chance, shelf.bestsellers, shelf.others
        if best and (not others or chance.happens(_BESTSELLER_SHARE)):
            u = chance.random()
            i = int(u * u * len(best))
            return best[i], i * 4 + sort
        i = chance.skewed(len(others))
        return others[i], (len(best) + i) * 4 + sort

    def _without_books(self) -> list[str]:
        """Titles that no book has; some differ from one only by case or a blank."""
        known = [*self._shelves.fiction.bestsellers, *self._shelves.other.others[:50]]
        twisted = [f(title) for title in known for f in (str.lower, "{} ".format)]
        return [*twisted, *(f"Lost Manuscript No. {k}" for k in range(1, 200))]

    def _run(self, title: str, number: int, most: int) -> Iterator[Row]:
        """Some reviews of one edition: one Id, one price."""
        chance = self._chance
        edition = number * 3 + chance.skewed(3)
        book = words.isbn(edition) if edition % 5 else f"B000{edition * 7919 % 1_000_000:06d}"
        price = f"{edition * 37 % 4000 / 100 + 3:.2f}" if edition % 6 == 0 else ""
        scores = _SCORES[number * 5 // 4 % len(_SCORES)]
        for _ in range(min(most, 1 + chance.skewed(16))):
            yield self._review(book, "" if chance.happens(0.001) else title, price, scores)

    def _review(self, book: str, title: str, price: str, scores: list[str]) -> Row:
        random = self._chance.random
        score = scores[int(random() * len(scores))] if random() > 0.004 else ""
        pool = self._pools[score]
        user, profile = self._users[int(random() * _USERS)] if random() > 0.22 else ("", "")
        helpful = _HELPFULNESS[int(random() * len(_HELPFULNESS))]
        time = str(860_112_000 + int(random() * 5800) * 86_400)
        summary = pool.summaries[int(random() * len(pool.summaries))] if random() > 0.001 else ""
        text = self._text(pool, title)
        return [book, title, price, user, profile, helpful, score, time, summary, text]

    def _text(self, pool: Pool, title: str) -> str:
        random = self._chance.random
        kind = random()
        if kind < 0.003:
            return ""
        length = _LENGTHS.at(random())
        if length < _SHORT:
            return pool.remarks[int(random() * len(pool.remarks))]
        known, n = pool.sentences, len(pool.sentences)
        parts = [known[int(random() * n)] for _ in range(int(length / _SENTENCE + 0.5) or 1)]
        if kind < 0.018:
            parts[0] = self._foreign[int(random() * len(self._foreign))]
        elif kind < 0.2 and title:
            parts[0] = f'"{title}" was the first thing of its kind that I read.'
        return _GLUES[int(random() * len(_GLUES))].join(parts)

    def _user(self) -> tuple[str, str]:
        chance = self._chance
        name = words.name(chance)
        nick = f' "{name.split()[0].lower()}{chance.below(100)}"' if chance.happens(0.2) else ""
        return f"A{words.code(12 + chance.below(2), chance)}", name + nick


# The data set `books`: books_data.csv and Books_rating.csv, made from a seed.
#
# The files have the columns of the public ones, their proportions and their warts. The same
# arguments give the same bytes everywhere.

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


_DIRTY_BOOKS = partial(Dirt, text=catalogue.DESCRIPTION)
_DIRTY_REVIEWS = partial(Dirt, text=TEXT, number=SCORE, oversized=True)


def _made(files: Files, books: int, reviews: int) -> GeneratedBooks:
    seed = files.seed
    shop = catalogue.Catalogue(books, seed)
    rows = shop.rows()
    first = files.write(BOOKS_FILE, catalogue.COLUMNS, rows, books, _DIRTY_BOOKS, "dirty books")
    rows = Opinions(shop.shelves, seed).rows(reviews)
    second = files.write(REVIEWS_FILE, COLUMNS, rows, reviews, _DIRTY_REVIEWS, "dirty reviews")
    return GeneratedBooks(first, second)


def generate_books(
    out: Path,
    *,
    books: int,
    reviews: int,
    seed: int,
    dirty: bool = False,
    progress: Progress | None = None,
) -> GeneratedBooks:
    """With both numbers of rows, and files that are known by their names."""
    return _made(Files(out, (books, reviews), seed, dirty, progress), books, reviews)


GENERATOR = Generator(
    files=(BOOKS_FILE, REVIEWS_FILE),
    rows_help="reviews",
    first_rows=lambda reviews: reviews // REVIEWS_PER_BOOK,
    make=_made,
    options={"books": "first_rows", "reviews": "rows"},
)
