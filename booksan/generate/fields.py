"""The short fields of a book: unique titles, names, lists, dates, ids."""

from booksan.generate import words
from booksan.generate.chance import Chance, weighted

_BODIES = len(words.ADJECTIVES) * len(words.NOUNS)
_TITLES = _BODIES * len(words.DRESSES)
#: A prime that divides no number of titles: steps of it visit each title once.
_STEP = 1_000_003
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_AUTHORS = weighted(((1, 82), (2, 12), (3, 4), (5, 2)))


class Titles:
    """Titles of which no two are equal, without remembering any."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._start = chance.below(_TITLES)
        self._made = 0

    def next(self) -> str:
        made, self._made = self._made, self._made + 1
        dress, body = divmod((self._start + made * _STEP) % _TITLES, _BODIES)
        adjective, noun = divmod(body, len(words.NOUNS))
        title = words.DRESSES[dress].format(f"{words.ADJECTIVES[adjective]} {words.NOUNS[noun]}")
        if made >= _TITLES:
            title += f", Part {made // _TITLES + 1}"
        if self._chance.happens(0.5):
            title += f": {self._chance.pick(words.SUBTITLES)}"
        return title


def distributed_title(k: int) -> str:
    """The k-th title with the word `distributed`, in one of its spellings."""
    rest, form = divmod(k, len(words.DISTRIBUTED))
    volume, topic = divmod(rest, len(words.TOPICS))
    title = words.DISTRIBUTED[form].format(words.TOPICS[topic])
    return f"{title} (Volume {volume + 1})" if volume else title


def name(chance: Chance) -> str:
    if chance.happens(0.01):
        return chance.pick(words.ODD_NAMES)
    first, last = chance.pick(words.FIRST_NAMES), chance.pick(words.LAST_NAMES)
    middle = f" {chance.pick(_ALPHABET[:26])}." if chance.happens(0.4) else ""
    suffix = chance.pick(words.SUFFIXES) if chance.happens(0.03) else ""
    return f"{first}{middle} {last}{suffix}"


def prolific_name(k: int) -> str:
    """The k-th author who writes for a century; the first two have names that are hard to read."""
    first = words.FIRST_NAMES[k % len(words.FIRST_NAMES)]
    last = words.LAST_NAMES[(k * 7 + 3) % len(words.LAST_NAMES)]
    return f"{first} Everly {last}" + (", Jr.", " O'Neill", "")[min(k, 2)]


def authors(chance: Chance) -> str:
    """A list of authors as the data set writes it, or one of the odd forms."""
    odd = chance.random()
    if odd < 0.068:
        return ""
    if odd < 0.071:
        return "[]"
    if odd < 0.075:
        return name(chance)
    if odd < 0.077:
        return repr(["", name(chance)])
    return repr([name(chance) for _ in range(chance.pick(_AUTHORS))])


def categories(chance: Chance) -> str:
    if chance.happens(0.145):
        return ""
    return repr(chance.pick(words.CATEGORIES))


def year(chance: Chance) -> int:
    return min(chance.pick(words.DECADES) * 10 + chance.below(10), 2024)


def date(of_year: int, chance: Chance) -> str:
    """A date of that year, in one of the forms from which the year can be read."""
    form = chance.random()
    if form < 0.46:
        return str(of_year)
    month = 1 + chance.below(12)
    if form < 0.54:
        return f"{of_year}-{month:02d}"
    if form < 0.545:
        return f"{of_year}*"
    return f"{of_year}-{month:02d}-{1 + chance.below(28):02d}"


def any_date(chance: Chance) -> str:
    odd = chance.random()
    if odd < 0.034:
        return ""
    if odd < 0.041:
        return chance.pick(words.ODD_DATES)
    return date(year(chance), chance)


def code(length: int, chance: Chance) -> str:
    """Random capital letters and digits."""
    random, alphabet = chance.random, _ALPHABET
    return "".join([alphabet[int(random() * 36)] for _ in range(length)])


def isbn(number: int) -> str:
    """Ten characters, the last one a check digit (or X); the same number gives the same one."""
    digits = f"{number * 387_420_489 % 1_000_000_007 % 1_000_000_000:09d}"
    check = sum((i + 1) * int(digit) for i, digit in enumerate(digits)) % 11
    return digits + ("X" if check == 10 else str(check))
