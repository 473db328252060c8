"""The rows of books_data.csv, and the sentences that they are made of."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from booksan.generate import words
from booksan.generate.generator import Chance, Quantiles, Row

# English-like sentences, made from templates and word lists.
#
# About one word in ten is in TextBlob's lexicon, with negations and modifiers around it, as in
# real reviews: that is what makes the sentiment of the texts as costly and as varied as it is
# there.


def _choices(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


_LISTS: dict[str, tuple[str, ...]] = {
    "thing": _choices(
        "story|plot|ending|dialogue|narrator|pacing|prose|cover|translation|chapter on the siege|"
        "index|setting|premise|villain|hero|second half|author's voice|research|advice|argument|"
        "cast of characters|romance|mystery|illustrations|table of contents|writing|binding"
    ),
    "who": _choices(
        "my sister|my book club|the author|the narrator|my husband|a friend from work|the hero|"
        "our teacher|the publisher|the reviewer below|my daughter|his editor|the old captain|"
        "the detective|half of my class|the heroine|everybody at the library"
    ),
    "good": _choices(
        "good|great|excellent|wonderful|amazing|brilliant|beautiful|fascinating|enjoyable|"
        "delightful|superb|charming|lovely|perfect|clever|funny|fresh|interesting|honest|"
        "compelling|memorable|gripping|thoughtful|useful|clear|moving|insightful|fine|nice|fun|"
        "magnificent|outstanding|fantastic|entertaining|intelligent|incredible|powerful|helpful|"
        "impressive|witty|rich|warm|elegant|inspiring|inspirational|hilarious|marvelous|sweet"
    ),
    "bad": _choices(
        "bad|terrible|awful|boring|dull|poor|weak|disappointing|predictable|confusing|horrible|"
        "tedious|annoying|silly|stupid|pathetic|shallow|slow|dry|flat|repetitive|"
        "pointless|unreadable|sloppy|overrated|messy|ridiculous|disgusting|mediocre|lame|cheap|"
        "painful|unbelievable|useless|worthless|depressing|childish|absurd|worst|sad|hard|cold"
    ),
    "plain": _choices(
        "long|short|old|new|little|different|early|first|second|large|simple|"
        "certain|main|dark|young|whole|modern|technical|political|real|final|"
        "special|general|other|famous|recent|local|ordinary|complex|light|rare|strange|quiet"
    ),
    "very": _choices(
        "very|really|extremely|quite|so|truly|absolutely|rather|incredibly|somewhat|a bit|"
        "surprisingly|just|utterly|pretty|terribly|remarkably"
    ),
    "not": _choices("not|never|hardly|not at all|no longer"),
    "place": _choices(
        "on the train|at the beach|in the waiting room|during the holidays|in one sitting|"
        "over the weekend|by the fire|for a class in college|after a long week|in the hospital|"
        "on a flight to Lisbon|while the children were asleep|with a pot of tea"
    ),
    "count": _choices(
        "two|three|four|five|a dozen|forty|many more|several|a hundred|many|too many"
    ),
    "aside": _choices(
        "as far as I can tell|to be fair|for what it's worth|believe it or not|in my opinion|"
        "as others have said|at least in this edition|if memory serves|by the way"
    ),
    "topic": _choices(
        "the harbor strike|a marriage that comes apart|three generations of bakers|the lost map|"
        "how to raise sheep|the rules of grammar|an expedition to the ice|the trial|the war years|"
        "baking without an oven|a village and its clock|the history of paper|networks and queues|"
        "faith and doubt|the brothers and their quarrel|life after the flood"
    ),
    "cheer": ("!", ".", "!!!", ".", ".", ".", "! :)", " :-)", ". ;)", "! =)", " :D"),
    "groan": (".", ".", "...", "!", "?!", " :(", ". :-(", "!!", " :/"),
}

_SYLLABLES = _choices("ma|to|fen|ru|se|jo|il|ka|bre|dor|wyn|lu|pel|an|gri|mor|ti|sha|os|vel|ne|qua")

_GLAD = (
    "The {thing} is {very} {good}{cheer}",
    "I loved the {thing}, {very} {good} as it is, and {who} loved it as well{cheer}",
    "What a {good} {thing} this is{cheer}",
    "It is {good}, {good} and {very} {good}.",
    "{who} gave it to me, and I read it {place} with a {good} feeling to the last page.",
    "I was {not} bored, {aside}, although the part about {topic} takes {count} chapters.",
    "This is the best book about {topic} that I have read in {count} years{cheer}",
    'I would call it {good}, and {who} would say "{very} {good}" instead.',
    "The {thing} made me laugh and, {aside}, it made {who} cry{cheer}",
    "Highly recommended to anyone who cares about {topic}{cheer}",
    "You won't be sorry that you bought it, since the {thing} alone is worth the price.",
    "{name} is a {good} character, and the way {who} talks about {topic} isn't {bad} either.",
)
_SAD = (
    "The {thing} is {very} {bad}{groan}",
    "I did {not} like the {thing}, and {who} put it down after {count} pages{groan}",
    "What a {bad} {thing}{groan}",
    "It was {bad}, {bad} and, {aside}, {very} {bad}.",
    "I wanted to like it, but the {thing} is not {good} and {topic} is left out{groan}",
    "Don't waste your money on this one, borrow it {place} if you must{groan}",
    "There is nothing {good} to say about the {thing}, {aside}.",
    'They call it "{good}" on the back, and I call it &quot;{bad}&quot;{groan}',
    "{who} found {count} mistakes in the chapter about {topic}, which is {very} {bad}.",
    "{name} never becomes a person, the {thing} is {bad}, and I could not care less about {topic}.",
    "I fell asleep {place} and have {not} opened it since{groan}",
)
_EVEN = (
    "The book tells of {topic} and of {topic}, and of what {who} did about it in the end.",
    "I read it {place}, then gave it to someone {plain} who wanted to know about {topic}.",
    "There are {count} {plain} chapters about {topic} and {count} about {topic}.",
    "{name} leaves the {plain} town, and {name} stays behind with the {plain} letters.",
    "The {plain} part, {aside}, is about {topic}; the rest follows {name} across the border.",
    "{who} bought it for me because of the {plain} {thing}.",
    "In the {plain} chapter {name} meets {name}, and from there on everything turns on {topic}.",
    "I have the edition with the {plain} cover, which {who} found at a sale {place}.",
    "It begins with {topic}, goes on with {topic} and ends, {aside}, with {name}.",
    "Compare it with the {plain} one by the same author, where {topic} takes up {count} pages.",
    "If you want to know about {topic}, look at the notes at the back and start from there.",
    "My copy came in the mail within {count} days, and {who} had it before I did.",
    '"{name}," says {name}, "you knew about this before the rest of us did."',
    "The author spends {count} pages on {topic} before {name} says a word about the ship.",
    "After that, {who} asked me whether {name} was based on somebody we had known at school.",
)
_FOREIGN = (
    "Un libro muy bueno, lo leí en dos días y se lo regalé a mi hermana.",
    "Das Buch ist schön, aber die Übersetzung hat mir nicht gefallen.",
    "Très beau roman, à lire absolument; la fin m'a beaucoup touché.",
    "Это очень хорошая книга, я читал её всю ночь.",
    "とても面白い本でした。",
    "这本书很好看，推荐给大家。",
    "Um livro maravilhoso, não consegui parar de ler.",
    "I loved it 😀👍",
    "Five stars 🌟🌟🌟🌟🌟 and a heart ❤️ for the ending.",
    "Not for me 😞 — sorry…",
    "الكتاب جميل جدا",
    "Naïve, clichéd & très déjà-vu – but fun “anyway”.",
)
_REMARKS = {
    "glad": (
        "Great book!",
        "Loved it!!",
        "A must read",
        "Very good :)",
        "Excellent.",
        "Perfect gift",
    ),
    "even": ("ok", "As described.", "It's a book.", "Read it twice", "So-so", "Fine, I guess"),
    "sad": ("Boring.", "Not good :(", "Awful!", "Don't bother", "A waste, really", "Hated it"),
}
_SUMMARIES = {
    "glad": ("A {good} {thing}{cheer}", "{good} and {good}", "Five stars for the {thing}"),
    "even": ("About {topic}", "Read {place}", "The {plain} {thing}, {aside}"),
    "sad": ("A {bad} {thing}{groan}", '"{good}"? {bad}!', "Skip the part about {topic}"),
}
_TEMPLATES = {"glad": _GLAD, "even": _EVEN, "sad": _SAD}
_SLOT = re.compile(r"\{([a-z]+)\}")


def fill(template: str, chance: Chance) -> str:
    """The template with a word in each slot, and a capital at the beginning."""
    text = _SLOT.sub(lambda slot: _word(slot[1], chance), template)
    return text[:1].upper() + text[1:]


def _word(slot: str, chance: Chance) -> str:
    """A word of the list; names are invented, so that texts have many different words."""
    if slot == "name":
        return "".join([chance.pick(_SYLLABLES) for _ in range(3)]).capitalize()
    return chance.pick(_LISTS[slot])


def sentences(tone: str, count: int, chance: Chance) -> list[str]:
    """Sentences of the tone `glad`, `even` or `sad`."""
    return [fill(chance.pick(_TEMPLATES[tone]), chance) for _ in range(count)]


def summaries(tone: str, count: int, chance: Chance) -> list[str]:
    return [fill(chance.pick(_SUMMARIES[tone]), chance) for _ in range(count)]


def remarks(tone: str) -> tuple[str, ...]:
    """Texts of a few words."""
    return _REMARKS[tone]


def foreign() -> tuple[str, ...]:
    """Sentences that are not English, or hold emoji."""
    return _FOREIGN


# The rows of books_data.csv, and which titles their reviews may name.
#
# Most books are ordinary. Some have a part to play, so that every query has something to find, and
# something close to it that must not be found: bestsellers, books on distributed computing, and
# authors whose books span a century.

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
        self._titles = words.Titles(self._chance)
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
        return self._placed(self._whole(words.distributed_title(k), year, categories))

    def _by_prolific(self, k: int) -> Book:
        """Authors with 9 to 14 decades; 9 are not enough for the query."""
        turn, number = divmod(k, self._prolific)
        decade = 201 - turn % (9 + (number + 3) % 6)
        book = self._whole(self._titles.next(), decade * 10 + self._chance.below(10), ["History"])
        names = [words.prolific_name(number)]
        if self._chance.happens(0.3):
            names.insert(self._chance.below(2), words.name(self._chance))
        return self._placed(book._replace(authors=repr(names)))

    def _ordinary(self) -> Book:
        chance = self._chance
        title = "" if chance.happens(0.002) else self._titles.next()
        authors, date = words.authors(chance), words.any_date(chance)
        book = Book(title, authors, date, words.categories(chance))
        return book if chance.happens(0.04) and book.takes_part else self._placed(book)

    def _again(self) -> Book:
        """A title for the second time, with another year and category."""
        chance, shelves = self._chance, self.shelves
        if shelves.lacking and chance.happens(0.3):
            title = shelves.lacking.pop(chance.below(len(shelves.lacking)))
            return self._placed(self._whole(title, words.year(chance), ["Fiction"]))
        shelf = chance.pick((shelves.fiction, shelves.other))
        titles = shelf.bestsellers if chance.happens(0.2) else shelf.others
        if not titles:
            return self._ordinary()
        category = chance.pick(("Fiction", "Poetry", "Computers"))
        return self._whole(chance.pick(titles), words.year(chance), [category])

    def _whole(self, title: str, year: int, categories: list[str]) -> Book:
        """A book that lacks nothing."""
        date = words.date(year, self._chance)
        authors = [words.name(self._chance) for _ in range(1 + self._chance.below(2))]
        return Book(title, repr(authors), date, repr(categories))

    def _placed(self, book: Book, bestseller: bool = False) -> Book:
        self.shelves.put(book, bestseller)
        return book

    def _row(self, book: Book) -> Row:
        chance = self._chance
        code = words.code(12, chance)
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
