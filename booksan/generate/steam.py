"""The data set `steam`, made from a seed."""

from collections.abc import Iterator
from functools import partial

from booksan.errors import UsageError
from booksan.generate import games, languages
from booksan.generate.games import Game, Games
from booksan.generate.generator import (
    Chance,
    Dirt,
    Files,
    Generated,
    Generator,
    Quantiles,
    Row,
    weighted,
)
from booksan.generate.languages import Language, phrases

# The rows of the reviews of games.

COLUMNS = ("app_id", "app_name", "review_text", "review_score", "review_votes")
APP_ID, NAME, TEXT, SCORE = range(4)

_HIT_SHARE = 0.45
#: The share of reviews on games that have no row.
_UNKNOWN_SHARE = 0.015
_ODD_SHARE = 0.01
#: Characters of a text by share of the reviews: many are very short.
_LENGTHS = Quantiles(
    (
        *((0.0, 0), (0.22, 30), (0.32, 50), (0.5, 85), (0.7, 190), (0.85, 420), (0.95, 950)),
        *((0.99, 2200), (0.999, 5500), (1.0, 8000)),
    )
)
_SHORT = 40
_FOREIGN = weighted(
    (
        *((languages.RUSSIAN, 26), (languages.CHINESE, 20), (languages.GERMAN, 15)),
        *((languages.SPANISH, 14), (languages.PORTUGUESE, 14), (languages.FRENCH, 11)),
    )
)
_ODD_SCORES = ("1.0", "-1.0", " 1", "+1", "-1e0", "0", "0.5")


class Pool:
    """What is written in one language in one tone."""

    def __init__(self, language: Language, tone: str, count: int, chance: Chance) -> None:
        self.sentences = phrases(language, tone, count, chance)
        self.remarks = language.cheers if tone == "glad" else language.groans
        self.length = sum(map(len, self.sentences)) / count
        self.glue = language.glue


class Verdicts:
    """Reviews come in runs on one game."""

    def __init__(self, games: Games, seed: int) -> None:
        self._chance = Chance(seed, "verdicts")
        self._games = games
        ranks = range(len(games.hits))
        self._hits = weighted((games.hits[rank], 600 // (rank + 2)) for rank in ranks)
        self._strangers = [Game(str(7 + 10 * k), f"Delisted {k}", 0.4, 0.8) for k in range(200)]
        self._english = self._pools(languages.ENGLISH, 1200)
        made = {id(each): self._pools(each, 150) for each in dict.fromkeys(_FOREIGN)}
        self._foreign = [made[id(each)] for each in _FOREIGN]

    def rows(self, reviews: int) -> Iterator[Row]:
        random = self._chance.random
        made = 0
        while made < reviews:
            game = self._game()
            run = min(reviews - made, 1 + self._chance.skewed(24))
            made += run
            for _ in range(run):
                row = self._review(game)
                yield row if random() >= _ODD_SHARE else self._odd(row)

    def _pools(self, language: Language, count: int) -> tuple[Pool, Pool]:
        """For glad reviews, and for sad ones."""
        glad = Pool(language, "glad", count, self._chance)
        return glad, Pool(language, "sad", count, self._chance)

    def _game(self) -> Game:
        chance, others = self._chance, self._games.others
        sort = chance.random()
        if sort < _UNKNOWN_SHARE or not others:
            return self._strangers[chance.skewed(len(self._strangers))]
        if self._hits and sort < _UNKNOWN_SHARE + _HIT_SHARE:
            return chance.pick(self._hits)
        return others[chance.skewed(len(others))]

    def _review(self, game: Game) -> Row:
        random = self._chance.random
        bad = random() < game.bad
        if random() < game.english:
            pool = self._english[bad]
        else:
            pool = self._foreign[int(random() * len(self._foreign))][bad]
        length = _LENGTHS.at(random())
        if length < _SHORT:
            text = pool.remarks[int(random() * len(pool.remarks))]
        else:
            known, n = pool.sentences, len(pool.sentences)
            count = int(length / pool.length + 0.5) or 1
            text = pool.glue.join([known[int(random() * n)] for _ in range(count)])
        score, votes = "-1" if bad else "1", "1" if random() < 0.15 else "0"
        return [game.app_id, game.name, text, score, votes]

    def _odd(self, row: Row) -> Row:
        """The row with a value that lacks, or one that is rare."""
        chance = self._chance
        sort = chance.random()
        if sort < 0.3:
            row[chance.pick((APP_ID, NAME, NAME, TEXT, SCORE))] = ""
        elif sort < 0.6:
            row[TEXT] = chance.pick(languages.ODD_TEXTS)
        elif sort < 0.7:
            row[TEXT] = f'  "{row[TEXT]}"\n\n, ...'
        elif sort < 0.85:
            row[SCORE] = chance.pick(_ODD_SCORES)
        elif row[APP_ID].isdigit():
            row[APP_ID] += chance.pick((".0", " ", "e0", ".", ".00"))
        return row


# The data set `steam`: games.csv and reviews.csv, made from a seed.
#
# The files have the columns of the public ones, their proportions and their warts. The same
# arguments give the same bytes everywhere.

GAMES_FILE = "games.csv"
REVIEWS_FILE = "reviews.csv"

#: Rows of the two public files.
_PUBLIC_GAMES, _PUBLIC_REVIEWS = 97_410, 6_417_106
#: Small data gets more games than its share, up to these, or there would be too few to compare.
FEW_GAMES = 100
#: The header of the games by its number of names.
_HEADERS = {39: games.SHORT_HEADER, 40: games.COLUMNS}

_DIRTY_GAMES = partial(
    Dirt,
    text=games.ABOUT,
    number=games.PLAYTIME,
    whole=games.APP_ID,
    boolean=games.WINDOWS,
)
_DIRTY_REVIEWS = partial(Dirt, text=TEXT, number=SCORE, whole=APP_ID, oversized=True)


def _sold(reviews: int) -> int:
    return max(reviews * _PUBLIC_GAMES // _PUBLIC_REVIEWS, min(FEW_GAMES, reviews // 10))


def _made(files: Files, sold: int, rows: int, header_names: int = 39) -> Generated:
    """Games have 40 fields, under a header of as many names, or of 39 as in the public file."""
    if header_names not in _HEADERS:
        raise UsageError(f"the header of the games has 39 names or 40, not {header_names}")
    seed = files.seed
    store = games.Store(sold, seed)
    columns = _HEADERS[header_names]
    first = files.write(GAMES_FILE, columns, store.rows(), sold, _DIRTY_GAMES, "dirty games")
    verdicts = Verdicts(store.games, seed).rows(rows)
    second = files.write(REVIEWS_FILE, COLUMNS, verdicts, rows, _DIRTY_REVIEWS, "dirty verdicts")
    return Generated(first, second)


GENERATOR = Generator(
    files=(GAMES_FILE, REVIEWS_FILE), rows_help="reviews", first_rows=_sold, make=_made
)
