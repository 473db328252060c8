"""The rows of matches.csv, and what the rows of their players need to know about them."""

from collections.abc import Iterator
from typing import NamedTuple

from booksan.generate.generator import Chance, Quantiles, Row, weighted

# Tokens of letters and digits, of which no two are equal, without remembering any.

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_PIECES = 1 << 12
_TOKENS = _PIECES**4
#: Odd, so that steps of it visit each token once.
_STEP = 0x9E3779B97F4B


class Tokens:
    """The i-th token, for i from 0 on: four pieces of four characters."""

    def __init__(self, chance: Chance) -> None:
        self._start = chance.below(_TOKENS)
        size = len(_ALPHABET)
        self._pieces = [
            "".join([_ALPHABET[number // size**i % size] for i in range(4)])
            for number in chance.distinct(_PIECES, size**4)
        ]

    def at(self, i: int) -> str:
        number = (self._start + i * _STEP) % _TOKENS
        pieces = self._pieces
        return (
            pieces[number >> 36]
            + pieces[number >> 24 & 4095]
            + pieces[number >> 12 & 4095]
            + pieces[number & 4095]
        )


# The rows of matches.csv, and what the rows of their players need to know about them.
#
# Most matches are ordinary. Some have a part to play, so that every query has something to find,
# and something close to it that must not be found.

COLUMNS = (
    *("token", "winning_team", "mirror", "ladder", "patch", "average_rating", "map", "map_size"),
    *("num_players", "server", "duration"),
)
MIRROR, RATING = COLUMNS.index("mirror"), COLUMNS.index("average_rating")
MAP, SERVER = COLUMNS.index("map"), COLUMNS.index("server")
DURATION = COLUMNS.index("duration")

_NAMES = """
Franks Mayans Britons Aztecs Mongols Huns Vikings Khmer Lithuanians Ethiopians Goths Persians
Chinese Berbers Turks Magyars Japanese Burmese Teutons Celts Spanish Incas Byzantines Italians
Slavs Tatars Bulgarians Saracens Cumans Indians Malians Koreans Portuguese Malay Vietnamese
Burgundians Sicilians
"""
#: The first are played more often than the last.
CIVS = tuple(_NAMES.split())
#: How much likelier a civilisation wins on the arena.
_STRONG = {"Burmese": 0.05, "Turks": 0.045, "Goths": 0.04, "Bulgarians": -0.04, "Malay": -0.05}

_ONE_TO_ONE = weighted((("RM_1v1", 96), ("DM_1v1", 4)))
_TEAMS = weighted((("RM_TEAM", 94), ("DM_TEAM", 6)))
_TEAM_SHARE = 0.295
_TEAM_SIZES = weighted(((4, 45), (6, 22), (8, 33)))
_MAP_SIZES = {2: "tiny", 4: "small", 6: "medium", 8: "large"}
_MAPS = weighted(
    (
        *(("arabia", 55), ("arena", 13), ("black_forest", 6), ("nomad", 4), ("four_lakes", 3)),
        *(("islands", 3), ("golden_pit", 3), ("hideout", 3), ("megarandom", 3), ("gold_rush", 2)),
        *(("team_islands", 2), ("baltic", 2), ("michi", 1)),
    )
)
_SERVERS = weighted(
    (
        *(("westeurope", 30), ("eastus", 17), ("westus2", 13), ("brazilsouth", 12), ("ukwest", 9)),
        *(("southeastasia", 9), ("australiasoutheast", 5), ("westindia", 3), ("koreacentral", 2)),
    )
)
_PATCHES = ("34793", "35584", "36202", "36906", "37650", "40220", "42848", "43210", "44725")
_LEVELS = Quantiles(((0.0, 480), (0.1, 850), (0.5, 1140), (0.9, 1650), (0.97, 1990), (1.0, 2650)))
_SECONDS = Quantiles(
    ((0.0, 60), (0.05, 500), (0.5, 2300), (0.9, 4100), (0.99, 6200), (0.9985, 7190), (1.0, 13000))
)
_ODD_SHARE = 0.012
_ODD_MAPS = ("Arena", "islands ", "mega,random", 'the "other" arena', "nomad\n(water)", "Ödland")
_ODD_DURATIONS = ("1 day, 0:10:00", "2 days, 3:00:01", "0:54:21.500000", "26:00:00", "0:00:00")
_ODD_RATINGS = (" 2001.0", "2.0005e3", "+1999.99", "2100", "1200. ", ".0")
_LACKING = tuple(map(COLUMNS.index, ("token", "mirror", "ladder", "map", "server", "duration")))

#: Duration, average rating and server of the long matches of the best, in turn.
_MARATHONS = (
    ("2:00:01", "2000.5", "koreacentral"),
    ("2:41:10", "2154.0", "southeastasia"),
    ("2:00:00", "2230.0", "eastus"),
    ("3:05:59", "2310.25", "eastus"),
    ("2:30:00", "2000.0", "eastus"),
    ("2:52:12", "2120.0", "westeurope"),
    ("1 day, 0:10:00", "2075.0", "eastus"),
    ("2:17:45", "", "koreacentral"),
)


class Match(NamedTuple):
    token: str
    #: A later row with the token of another match has no players.
    again: bool
    ladder: str
    place: str
    players: int
    #: About the rating of its players.
    level: int
    #: Of the first player and the second; in a team match nobody cares.
    civs: tuple[str, str]
    winner: int
    part: str
    turn: int


class Matches:
    """Makes the matches, one by one. A second one of the same seed makes the same."""

    def __init__(self, matches: int, seed: int) -> None:
        self._matches = matches
        self._chance = Chance(seed, "matches")
        self._tokens = Tokens(self._chance)
        self._parts = self._cast()

    def __iter__(self) -> Iterator[Match]:
        for i in range(self._matches):
            part, turn = self._parts.get(i, ("", 0))
            yield self._match(i, part, turn)

    def _cast(self) -> dict[int, tuple[str, int]]:
        """Which match plays which part: at most a sixth of them play any."""
        n = self._matches
        numbers = {
            "marathon": max(min(8, n // 30), n // 2000),
            "upset": max(min(12, n // 20), n // 400),
            "islands": max(min(6, n // 20), n // 800),
        }
        parts = [(part, turn) for part, number in numbers.items() for turn in range(number)]
        return dict(zip(self._chance.distinct(len(parts), n), parts, strict=True))

    def _match(self, i: int, part: str, turn: int) -> Match:
        random = self._chance.random
        team = random() < _TEAM_SHARE
        kinds = _TEAMS if team else _ONE_TO_ONE
        ladder = kinds[int(random() * len(kinds))]
        players = _TEAM_SIZES[int(random() * len(_TEAM_SIZES))] if team else 2
        place = _MAPS[int(random() * len(_MAPS))]
        level = int(_LEVELS.at(random()))
        if part == "upset":
            ladder, players = "RM_1v1", 2
        elif part == "islands":
            ladder, place, level = "RM_TEAM", "islands", 1980 + 20 * (turn % 8)
            players = 4 if players == 2 else players
        a, b = CIVS[self._civ()], CIVS[self._civ()]
        again = random() < 0.003 and i > 0 and not part
        token = self._tokens.at(int(random() * i) if again else i)
        winner = self._winner(a, b, place)
        return Match(token, again, ladder, place, players, level, (a, b), winner, part, turn)

    def _civ(self) -> int:
        u = self._chance.random()
        return int(u * (0.4 + 0.6 * u) * len(CIVS))

    def _winner(self, a: str, b: str, place: str) -> int:
        edge = _STRONG.get(a, 0.0) - _STRONG.get(b, 0.0) if place == "arena" else 0.0
        return 1 if self._chance.random() < 0.5 + edge else 2


class MatchRows:
    """The matches as rows. What players need not know is drawn here."""

    def __init__(self, matches: Matches, seed: int) -> None:
        self._matches = matches
        self._chance = Chance(seed, "match rows")

    def __iter__(self) -> Iterator[Row]:
        random = self._chance.random
        for match in self._matches:
            row = self._row(match)
            if match.part == "marathon":
                row[DURATION], row[RATING], row[SERVER] = _MARATHONS[match.turn % len(_MARATHONS)]
            elif random() < _ODD_SHARE and not match.part:
                row = self._odd(row)
            yield row

    def _row(self, match: Match) -> Row:
        random = self._chance.random
        seconds = int(_SECONDS.at(random()))
        mirror = match.players == 2 and match.civs[0] == match.civs[1]
        rating = f"{match.level + int(random() * 4) / 4}" if random() > 0.1 else ""
        return [
            match.token,
            str(match.winner),
            "True" if mirror else "False",
            match.ladder,
            _PATCHES[int(random() * len(_PATCHES))],
            rating,
            match.place,
            _MAP_SIZES[match.players],
            str(match.players),
            _SERVERS[int(random() * len(_SERVERS))],
            f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}",
        ]

    def _odd(self, row: Row) -> Row:
        """The row with a value that lacks, or one that is rare."""
        chance = self._chance
        sort = chance.random()
        if sort < 0.3:
            row[chance.pick(_LACKING)] = ""
        elif sort < 0.5:
            row[MAP] = chance.pick(_ODD_MAPS)
        elif sort < 0.7:
            row[DURATION] = chance.pick(_ODD_DURATIONS)
        elif sort < 0.85:
            row[RATING] = chance.pick(_ODD_RATINGS)
        else:
            row[MIRROR] = chance.pick((row[MIRROR].lower(), row[MIRROR].upper()))
        return row
