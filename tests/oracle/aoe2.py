"""The answers of the data set aoe2, straight from the definition of its queries.

python -m tests.oracle.aoe2 MATCHES PLAYERS OUTDIR [--set q1.hours=1.5 ...]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from tests.oracle.common import (
    NO_PARAMS,
    Cells,
    Defaults,
    Params,
    command,
    csv_file,
    rejected_of,
)
from tests.oracle.kinds import boolean, clock_duration, number, unless_lacking
from tests.oracle.reader import Kind, rows

DEFAULTS: Defaults = MappingProxyType(
    {
        "q1.hours": 2.0,
        "q1.rating": 2000.0,
        "q1.servers": "koreacentral,southeastasia,eastus",
        "q2.ladder": "RM_1v1",
        "q2.rating": 1000.0,
        "q2.margin": 0.3,
        "q3.ladder": "RM_1v1",
        "q3.map": "arena",
        "q4.ladder": "RM_TEAM",
        "q4.map": "islands",
        "q4.rating": 2000.0,
        "q4.top": 5,
    }
)
NEEDED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "matches": ("token", "mirror", "ladder", "average_rating", "map", "server", "duration"),
        "players": ("match", "rating", "civ", "winner"),
    }
)
KINDS: Mapping[str, Mapping[str, Kind]] = MappingProxyType(
    {
        "matches": {"mirror": boolean, "average_rating": number, "duration": clock_duration},
        "players": {"rating": number, "winner": boolean},
    }
)


@dataclass(frozen=True)
class Match:
    """A row of matches; what is lacking is None, or empty where it is a text."""

    token: str
    mirror: bool | None
    ladder: str
    rating: Fraction | None
    map: str
    server: str
    seconds: Fraction | None


@dataclass(frozen=True)
class Player:
    """A row of players; what is lacking is None, or empty where it is a text."""

    match: str
    rating: Fraction | None
    civ: str
    winner: bool | None


def answers(
    first: Path, second: Path, params: Mapping[str, object] = NO_PARAMS
) -> dict[str, bytes]:
    """The result files q1 to q4 as they must be written."""
    settings = Params(DEFAULTS, params)
    matches = first_of_each_token(first)
    players = players_of(matches, second)
    return {
        "q1": csv_file(("match",), q1(matches.values(), settings)),
        "q2": csv_file(("match",), q2(matches, players, settings)),
        "q3": csv_file(("civ", "win_rate", "games"), q3(matches, players, settings)),
        "q4": csv_file(("rank", "civ", "uses"), q4(matches, players, settings)),
    }


def rejected(path: Path, source: str) -> list[int]:
    """The numbers of the rows that cannot be read."""
    return rejected_of(rows(path, NEEDED[source], KINDS[source]))


def first_of_each_token(path: Path) -> dict[str, Match]:
    """The match that a token stands for: its first row, whatever else that one lacks."""
    found: dict[str, Match] = {}
    for _, row in rows(path, NEEDED["matches"], KINDS["matches"]):
        if row is None or row["token"] == "" or row["token"] in found:
            continue
        found[row["token"]] = Match(
            row["token"],
            unless_lacking(boolean, row["mirror"]),
            row["ladder"],
            unless_lacking(number, row["average_rating"]),
            row["map"],
            row["server"],
            unless_lacking(clock_duration, row["duration"]),
        )
    return found


def players_of(matches: Mapping[str, Match], path: Path) -> list[Player]:
    """The players whose match is known."""
    found = []
    for _, row in rows(path, NEEDED["players"], KINDS["players"]):
        if row is None or row["match"] not in matches:
            continue
        rating = unless_lacking(number, row["rating"])
        winner = unless_lacking(boolean, row["winner"])
        found.append(Player(row["match"], rating, row["civ"], winner))
    return found


def q1(matches: Iterable[Match], settings: Params) -> Sequence[Cells]:
    """Long matches of strong players on some servers."""
    seconds = settings.exact("q1.hours") * 3600
    rating = settings.exact("q1.rating")
    servers = settings.text("q1.servers").split(",")
    return sorted(
        (match.token,)
        for match in matches
        if match.seconds is not None
        and match.seconds > seconds
        and match.rating is not None
        and match.rating > rating
        and match.server != ""
        and match.server in servers
    )


def q2(
    matches: Mapping[str, Match], players: Iterable[Player], settings: Params
) -> Sequence[Cells]:
    """Matches of two that a much weaker player won."""
    ladder = settings.text("q2.ladder")
    sides: dict[str, list[Player]] = defaultdict(list)
    for player in players:
        if _is(matches[player.match].ladder, ladder):
            sides[player.match].append(player)
    return sorted((token,) for token, own in sides.items() if _is_upset(own, settings))


def _is_upset(players: Sequence[Player], settings: Params) -> bool:
    winners = [player for player in players if player.winner is True]
    losers = [player for player in players if player.winner is False]
    if (len(players), len(winners), len(losers)) != (2, 1, 1):
        return False
    winner, loser = winners[0].rating, losers[0].rating
    if winner is None or loser is None or winner == 0:
        return False
    margin = (loser - winner) / winner
    return winner > settings.exact("q2.rating") and margin > settings.exact("q2.margin")


def q3(
    matches: Mapping[str, Match], players: Iterable[Player], settings: Params
) -> Sequence[Cells]:
    """How often each civilisation wins against others on a map."""
    ladder, map_name = settings.text("q3.ladder"), settings.text("q3.map")
    games: Counter[str] = Counter()
    wins: Counter[str] = Counter()
    for player in players:
        match = matches[player.match]
        fits = _is(match.ladder, ladder) and _is(match.map, map_name) and match.mirror is False
        if fits and player.civ != "" and player.winner is not None:
            games[player.civ] += 1
            wins[player.civ] += player.winner
    return [
        (civ, float(Fraction(100 * wins[civ], count)), count)
        for civ, count in sorted(games.items())
    ]


def q4(
    matches: Mapping[str, Match], players: Iterable[Player], settings: Params
) -> Sequence[Cells]:
    """The civilisations that strong players use most on a map."""
    ladder, map_name = settings.text("q4.ladder"), settings.text("q4.map")
    rating = settings.exact("q4.rating")
    uses: Counter[str] = Counter()
    for player in players:
        match = matches[player.match]
        fits = _is(match.ladder, ladder) and _is(match.map, map_name)
        if fits and player.civ != "" and player.rating is not None and player.rating > rating:
            uses[player.civ] += 1
    ordered = sorted(uses.items(), key=lambda pair: (-pair[1], pair[0]))
    best = ordered[: settings.whole("q4.top")]
    return [(rank, civ, count) for rank, (civ, count) in enumerate(best, start=1)]


def _is(text: str, wanted: str) -> bool:
    """A lacking text is nothing that could be wanted."""
    return text != "" and text == wanted


def main(arguments: Sequence[str] | None = None) -> None:
    """Write q1.csv to q4.csv into a directory."""
    command("aoe2", NEEDED, answers, arguments)


if __name__ == "__main__":
    main()
