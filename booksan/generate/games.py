"""The rows of games.csv, and which games their reviews may name."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from booksan.generate import words
from booksan.generate.generator import Chance, Quantiles, Row, weighted
from booksan.generate.languages import ENGLISH, phrases

COLUMNS = (
    *("AppID", "Name", "Release date", "Estimated owners", "Peak CCU", "Required age", "Price"),
    *("Unknown", "DiscountDLC count", "About the game", "Supported languages"),
    *("Full audio languages", "Reviews", "Header image", "Website", "Support url"),
    *("Support email", "Windows", "Mac", "Linux", "Metacritic score", "Metacritic url"),
    *("User score", "Positive", "Negative", "Score rank", "Achievements", "Recommendations"),
    *("Notes", "Average playtime forever", "Average playtime two weeks"),
    *("Median playtime forever", "Median playtime two weeks", "Developers", "Publishers"),
    *("Categories", "Genres", "Tags", "Screenshots", "Movies"),
)
#: As in the public file, where one name stands over two columns.
SHORT_HEADER = tuple(name for name in COLUMNS if name != "Unknown")
APP_ID, NAME, RELEASE = (COLUMNS.index(name) for name in ("AppID", "Name", "Release date"))
ABOUT, WINDOWS, LINUX = (COLUMNS.index(name) for name in ("About the game", "Windows", "Linux"))
PLAYTIME, GENRES = COLUMNS.index("Average playtime forever"), COLUMNS.index("Genres")

#: Games that are remembered: those beyond them get no reviews.
REMEMBERED = 250_000
_MOST_HITS = 24
_ODD_SHARE = 0.1
_AGAIN_SHARE = 0.008
#: A prime: steps of any other length visit each number below it once.
_IDS = 300_007
_STEP = 104_729
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_YEARS = weighted(
    (
        *((2006, 1), (2008, 3), (2009, 3), (2010, 6), (2011, 4), (2012, 6), (2013, 13), (2014, 22)),
        *((2015, 48), (2016, 75), (2017, 88), (2018, 131), (2019, 106), (2020, 164), (2021, 208)),
        (2022, 120),
    )
)
_GENRES = weighted(
    (
        *(("Casual,Indie", 73), ("Action,Indie", 59), ("Adventure,Indie", 59), ("Casual", 28)),
        *(("Action,Adventure,Indie", 51), ("Adventure,Casual,Indie", 30), ("Indie", 26)),
        *(("Action,Casual,Indie", 26), ("Action,Adventure,Casual,Indie", 22), ("Action", 30)),
        *(("Indie,Strategy", 30), ("Simulation", 20), ("RPG", 20), ("Action,Adventure,RPG", 20)),
        *(("Strategy", 25), ("Adventure", 20), ("Action,Free to Play,Massively Multiplayer", 15)),
        *(("Adventure,Indie,RPG", 26), ("Casual,Indie,Simulation,Strategy", 30), ("Utilities", 9)),
    )
)
#: The same genres in other letters, and some that only look like them.
_ODD_GENRES = (
    *("Action, Indie", "indie", "INDIE,ACTION", " Action ,RPG", "Casual,\tIndie", "Action,,Indie"),
    *("Actions", "Indie Action", "Non-Indie", "Action RPG", ",", "Inдие"),
)
_ODD_DATES = ("Nov 2021", "Coming soon", "2012-05-03", "21 Oct, 2014", "Q3 2018", "TBA", "May '17")
_ODD_TIMES = ("", " 300", "1.5e3", "420.50", "+77", "12000.0")
_NAMES = (
    *("{}", "{}", "{} Simulator", "{}: Origins", "Super {}", "{} VR", "{}™", "{} 2", "{} Tycoon"),
    *("{}, the Game", 'The "{}" Game', "Дом: {}", "{} 物语", "{}® – Édition Spéciale", "{} DLC"),
)
_OWNERS = weighted((("0 - 20000", 68), ("20000 - 50000", 12), ("0 - 0", 6), ("50000 - 100000", 5),
                    ("100000 - 200000", 5), ("1000000 - 2000000", 1)))  # fmt: skip
_PRICES = ("0.0", "0.99", "9.99", "4.99", "1.99", "19.99", "2.99", "14.99", "59.99")
_LANGUAGES = ("English", "Russian", "German", "French", "Simplified Chinese", "Portuguese - Brazil",
              "Spanish - Spain", "Japanese", "Polish", "Italian")  # fmt: skip
_CATEGORIES = ("Single-player", "Multi-player", "Steam Achievements", "Full controller support",
               "Steam Cloud", "Steam Trading Cards", "Co-op", "Online PvP")  # fmt: skip
_TAGS = ("Indie", "Casual", "Action", "2D", "Pixel Graphics", "Horror", "VR", "Puzzle", "Retro",
         "Singleplayer", "Atmospheric", "Great Soundtrack", "Beat 'em up", "Roguelike")  # fmt: skip
_SENTENCES = Quantiles(((0.0, 1), (0.25, 5), (0.5, 12), (0.75, 20), (0.95, 42), (1.0, 200)))


class Hit(NamedTuple):
    """What everybody reviews: its genres, and the shares of bad and of English reviews."""

    genres: str
    bad: float
    english: float


#: The first is reviewed most.
_HITS = (
    Hit("Action", 0.45, 0.8),
    Hit("Action,Adventure,Indie,RPG", 0.08, 0.8),
    Hit("Action,Adventure,Indie,Massively Multiplayer", 0.3, 0.75),
    Hit("Action,Free to Play", 0.6, 0.35),
    Hit("Indie", 0.04, 0.85),
    Hit("RPG,Simulation", 0.2, 0.8),
    Hit("Indie, Action", 0.15, 0.8),
    Hit("Strategy,Indie", 0.12, 0.7),
    Hit("action,strategy", 0.5, 0.8),
)


class Game(NamedTuple):
    app_id: str
    name: str
    bad: float
    english: float


@dataclass
class Games:
    """Those that take part: hits, the most reviewed first, and the others."""

    hits: list[Game] = field(default_factory=list)
    others: list[Game] = field(default_factory=list)


class Store:
    """Makes the rows, one by one; its games are complete when all rows were made."""

    def __init__(self, games: int, seed: int) -> None:
        self.games = Games()
        self._number = games
        self._chance = Chance(seed, "games")
        self._start = self._chance.below(_IDS)
        self._texts = phrases(ENGLISH, "glad", 300, self._chance)
        hits = min(_MOST_HITS, games // 10)
        self._hits = dict(zip(self._chance.distinct(hits, games), range(hits), strict=True))
        self._lacking: list[str] = []
        self.games.hits = [Game("", "", 0.0, 1.0)] * hits

    def rows(self) -> Iterator[Row]:
        chance = self._chance
        for i in range(self._number):
            if i in self._hits:
                yield self._hit(i, self._hits[i])
            elif self.games.others and chance.happens(_AGAIN_SHARE):
                yield self._again()
            else:
                yield self._ordinary(i)

    def _hit(self, i: int, rank: int) -> Row:
        hit = _HITS[rank % len(_HITS)]
        row = self._row(self._app_id(i))
        row[GENRES], row[PLAYTIME] = hit.genres, str(9000 - rank // 3 * 500)
        self.games.hits[rank] = Game(row[APP_ID], row[NAME], hit.bad, hit.english)
        return row

    def _ordinary(self, i: int) -> Row:
        chance = self._chance
        row = self._row(self._app_id(i))
        if chance.happens(_ODD_SHARE):
            self._make_odd(row)
        if len(self.games.others) < REMEMBERED:
            bad = 0.05 + 0.4 * chance.random() * chance.random()
            self.games.others.append(Game(row[APP_ID], row[NAME], bad, 0.78))
        return row

    def _again(self) -> Row:
        """An AppID for the second time, with all that the first may lack."""
        chance, lacking = self._chance, self._lacking
        if lacking and chance.happens(0.5):
            row = self._row(lacking.pop())
        else:
            row = self._row(chance.pick(self.games.others).app_id)
        row[NAME] += " (again)"
        row[GENRES] = "Action,Indie"
        return row

    def _app_id(self, i: int) -> str:
        lap, place = divmod(i, _IDS)
        return str(10 + 10 * ((self._start + place * _STEP) % _IDS + lap * _IDS))

    def _make_odd(self, row: Row) -> None:
        """Put in a value that lacks, or one that is rare."""
        chance = self._chance
        sort = chance.random()
        if sort < 0.2:
            row[chance.pick((NAME, RELEASE, GENRES, WINDOWS, APP_ID))] = ""
            self._lacking += [row[APP_ID]] if row[APP_ID] else []
        elif sort < 0.5:
            row[GENRES] = chance.pick(_ODD_GENRES)
        elif sort < 0.7:
            row[RELEASE] = chance.pick(_ODD_DATES)
        elif sort < 0.85:
            row[PLAYTIME] = chance.pick(_ODD_TIMES)
        elif sort < 0.95:
            column = WINDOWS + chance.below(3)
            row[column] = chance.pick((row[column].upper(), row[column].lower()))
        else:
            row[APP_ID] += chance.pick((".0", " ", "e0"))

    def _row(self, app_id: str) -> Row:
        chance, random = self._chance, self._chance.random
        name = chance.pick(_NAMES).format(
            f"{chance.pick(words.ADJECTIVES)} {chance.pick(words.NOUNS)}"
        )
        site = f"https://{name.split()[0].lower()}.example.org"
        cdn = f"https://cdn.example.org/steam/apps/{app_id}"
        stamp = 1_500_000_000 + int(random() * 1e8)
        played = chance.skewed(8000) if random() < 0.24 else 0
        positive = chance.skewed(3000)
        maker = words.name(chance) if random() < 0.5 else chance.pick(words.PUBLISHERS)
        spoken = [each for each in _LANGUAGES if random() < 0.15] or ["English"]
        pictures = [_picture(cdn, chance, stamp) for _ in range(4 + chance.below(9))]
        return [
            *(app_id, name, self._date(), chance.pick(_OWNERS), str(chance.skewed(100))),
            *("17" if random() < 0.01 else "0", chance.pick(_PRICES), "0", str(chance.skewed(9))),
            *(self._about(), repr(spoken), repr(spoken[:1]) if random() < 0.4 else "[]"),
            f"“{chance.pick(self._texts)}” {chance.below(100)}/100 – Pixel, the Magazine"
            if random() < 0.14 else "",
            *(f"{cdn}/header.jpg?t={stamp}", site if random() < 0.53 else ""),
            *(f"{site}/help?a=1,2" if random() < 0.5 else "", f"help@{site[8:]}"),
            *(str(random() < 0.95), str(random() < 0.18), str(random() < 0.126)),
            *("0", "", "0", str(positive), str(chance.skewed(positive + 1)), ""),
            *(str(chance.skewed(60)), str(chance.skewed(900)), ""),
            *(str(played), "0", str(played // 2), "0", maker, maker),
            ",".join([each for each in _CATEGORIES if random() < 0.3]),
            chance.pick(_GENRES),
            ",".join([each for each in _TAGS if random() < 0.5]),
            ",".join(pictures),
            f"{cdn}/movie_max.mp4?t={stamp}" if random() < 0.94 else "",
        ]  # fmt: skip

    def _date(self) -> str:
        chance = self._chance
        return f"{chance.pick(_MONTHS)} {1 + chance.below(28)}, {chance.pick(_YEARS)}"

    def _about(self) -> str:
        chance = self._chance
        if chance.happens(0.02):
            return ""
        count = int(_SENTENCES.at(chance.random()))
        glue = "\n" if chance.happens(0.02) else " "
        return glue.join([chance.pick(self._texts) for _ in range(count)])


def _picture(cdn: str, chance: Chance, stamp: int) -> str:
    number = int(chance.random() * (1 << 53)) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 160)
    return f"{cdn}/ss_{number:040x}.1920x1080.jpg?t={stamp}"
