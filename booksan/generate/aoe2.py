"""The data set `aoe2`, made from a seed."""

from collections.abc import Iterable, Iterator
from functools import partial

from booksan.generate import matches
from booksan.generate.generator import (
    Chance,
    Dirt,
    Files,
    Generated,
    Generator,
    Row,
    weighted,
)
from booksan.generate.matches import CIVS, Match, Tokens

# The rows of match_players.csv.

COLUMNS = ("token", "match", "rating", "color", "civ", "team", "winner")
MATCH, RATING, CIV, WINNER = (COLUMNS.index(name) for name in ("match", "rating", "civ", "winner"))

_COLORS = ("Blue", "Red", "Green", "Yellow", "Cyan", "Purple", "Grey", "Orange")
_ON_WATER = weighted(
    (
        *(("Vikings", 30), ("Italians", 20), ("Portuguese", 16), ("Japanese", 7), ("Saracens", 7)),
        *((civ, 1) for civ in CIVS[:15]),
    )
)
#: Ratings of winner and loser where the better one lost, in turn.
_UPSETS = (
    ("1001.0", "1400.0"),
    ("1500.0", "1950.0"),
    ("1500.0", "1951.0"),
    ("1000.0", "1400.0"),
    ("1210.5", "1600"),
    ("1600.0", "2300.0"),
)
#: The share of players whose match is in no row.
_STRANGER_SHARE = 0.004
_UNRATED_SHARE = 0.08
_ODD_SHARE = 0.008
_ODD_CIVS = ("vikings", "Franks ", "Åsir, the", 'The "Goths"', "Turks\nand Tatars", "中国")
#: Rows that are held back, so that the players of a match do not come one after the other.
_HELD = 4000


class Players:
    """Makes the rows in no order, as they are in the public file."""

    def __init__(self, matches: Iterable[Match], seed: int) -> None:
        self._matches = matches
        self._chance = Chance(seed, "players")
        self._tokens = Tokens(self._chance)
        self._strangers = Tokens(Chance(seed, "unknown matches"))
        self._made = 0

    def rows(self, players: int) -> Iterator[Row]:
        random = self._chance.random
        held: list[Row] = []
        source = self._endless()
        for _ in range(min(_HELD, players)):
            held.append(next(source))
        for _ in range(players - len(held)):
            i = int(random() * _HELD)
            yield held[i]
            held[i] = next(source)
        while held:
            yield held.pop(int(random() * len(held)))

    def _endless(self) -> Iterator[Row]:
        """The players of all matches, a stranger now and then, and strangers in the end."""
        random = self._chance.random
        for match in self._matches:
            if match.again:
                continue
            for row in self._of(match):
                yield row if random() >= _ODD_SHARE or match.part else self._odd(row)
                if random() < _STRANGER_SHARE:
                    yield self._stranger()
        while True:
            yield self._stranger()

    def _of(self, match: Match) -> list[Row]:
        if match.players == 2:
            return self._two(match)
        half = match.players // 2
        teams = [1] * half + [2] * half
        return [self._team_mate(match, i, team) for i, team in enumerate(teams)]

    def _two(self, match: Match) -> list[Row]:
        random = self._chance.random
        wins = (match.winner == 1, match.winner == 2)
        if match.part == "upset":
            won, lost = _UPSETS[match.turn % len(_UPSETS)]
            ratings = (won, lost) if wins[0] else (lost, won)
        else:
            ratings = (self._rating(match.level), self._rating(match.level))
        rows = [
            self._row(match.token, ratings[i], i, match.civs[i], i + 1, wins[i]) for i in (0, 1)
        ]
        odd = random()
        if odd < 0.006 and not match.part:
            if odd < 0.002:
                rows.pop()
            elif odd < 0.004:
                rows.append(self._row(match.token, ratings[0], 2, match.civs[1], 1, wins[0]))
            else:
                rows[1][WINNER] = rows[0][WINNER]
        return rows

    def _team_mate(self, match: Match, i: int, team: int) -> Row:
        random = self._chance.random
        civs = _ON_WATER if match.place == "islands" else CIVS
        rating = self._rating(match.level)
        civ = civs[int(random() * len(civs))]
        return self._row(match.token, rating, i, civ, team, team == match.winner)

    def _rating(self, level: int) -> str:
        random = self._chance.random
        return "" if random() < _UNRATED_SHARE else f"{level - 60 + int(random() * 121)}.0"

    def _row(self, match: str, rating: str, i: int, civ: str, team: int, won: bool) -> Row:
        self._made += 1
        token = self._tokens.at(self._made)
        return [token, match, rating, _COLORS[i], civ, str(team), "True" if won else "False"]

    def _stranger(self) -> Row:
        chance = self._chance
        match = self._strangers.at(chance.below(1_000_000))
        return self._row(match, "2200.0", 0, chance.pick(CIVS), 1, chance.happens(0.5))

    def _odd(self, row: Row) -> Row:
        """The row with a value that lacks, or one that is rare."""
        chance = self._chance
        sort = chance.random()
        if sort < 0.4:
            row[chance.pick((0, MATCH, CIV, WINNER))] = ""
        elif sort < 0.6:
            row[CIV] = chance.pick(_ODD_CIVS)
        elif sort < 0.8:
            row[WINNER] = chance.pick((row[WINNER].lower(), row[WINNER].upper()))
        elif row[RATING]:
            whole = row[RATING].removesuffix(".0")
            row[RATING] = chance.pick((whole, f" {whole}.", f"{whole}e0", f"+{whole}.00"))
        return row


# The data set `aoe2`: matches.csv and match_players.csv, made from a seed.
#
# The files have the columns of the public ones, their proportions and their warts. The same
# arguments give the same bytes everywhere.

MATCHES_FILE = "matches.csv"
PLAYERS_FILE = "match_players.csv"

#: Rows of the two public files.
_PUBLIC_MATCHES, _PUBLIC_PLAYERS = 3_153_767, 9_732_500

_DIRTY_MATCHES = partial(
    Dirt,
    text=matches.MAP,
    number=matches.RATING,
    boolean=matches.MIRROR,
    duration=matches.DURATION,
)
_DIRTY_PLAYERS = partial(Dirt, text=CIV, number=RATING, boolean=WINNER, oversized=True)


def _made(files: Files, fought: int, rows: int) -> Generated:
    seed = files.seed
    fights = matches.MatchRows(matches.Matches(fought, seed), seed)
    first = files.write(
        MATCHES_FILE, matches.COLUMNS, fights, fought, _DIRTY_MATCHES, "dirty matches"
    )
    # The matches are made a second time: to remember millions of them would take too much memory.
    players = Players(matches.Matches(fought, seed), seed).rows(rows)
    second = files.write(PLAYERS_FILE, COLUMNS, players, rows, _DIRTY_PLAYERS, "dirty players")
    return Generated(first, second)


GENERATOR = Generator(
    files=(MATCHES_FILE, PLAYERS_FILE),
    rows_help="players",
    first_rows=lambda players: players * _PUBLIC_MATCHES // _PUBLIC_PLAYERS,
    make=_made,
)
