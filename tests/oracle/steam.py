"""The answers of the data set steam, straight from the definition of its queries.

python -m tests.oracle.steam GAMES REVIEWS OUTDIR [--set q4.reviews=50 ...]
"""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy

from tests.oracle.common import (
    NO_PARAMS,
    Cells,
    Defaults,
    Params,
    command,
    csv_file,
    rejected_of,
    year_in,
)
from tests.oracle.kinds import boolean, number, unless_lacking, whole
from tests.oracle.reader import PLAIN, Form, Kind, Row, rows

#: Tells whether a text is in English.
Detector = Callable[[str], bool]
Games = Mapping[int, "Game"]

DEFAULTS: Defaults = MappingProxyType(
    {
        "q2.genre": "Indie",
        "q2.from_year": 2010,
        "q2.to_year": 2019,
        "q2.top": 10,
        "q3.genre": "Indie",
        "q3.top": 5,
        "q4.genre": "Action",
        "q4.reviews": 5000,
        "q5.genre": "Action",
        "q5.percentile": 90.0,
    }
)
PLATFORMS = ("Linux", "Mac", "Windows")
PLAYTIME = "Average playtime forever"
NEEDED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "games": ("AppID", "Name", "Release date", "Genres", PLAYTIME, *PLATFORMS),
        "reviews": ("app_id", "review_text", "review_score"),
    }
)
KINDS: Mapping[str, Mapping[str, Kind]] = MappingProxyType(
    {
        "games": {
            "AppID": whole,
            PLAYTIME: number,
            "Linux": boolean,
            "Mac": boolean,
            "Windows": boolean,
        },
        "reviews": {"app_id": whole, "review_score": number},
    }
)
FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "games": Form(double_name=("DiscountDLC count", ["Discount", "DLC count"])),
        "reviews": PLAIN,
    }
)


@dataclass(frozen=True)
class Game:
    """A row of games that takes part; what may be lacking is None, or empty for the playtime."""

    app_id: int
    name: str
    genres: list[str]
    year: int | None
    #: As it came.
    playtime: str
    #: Whether it supports the platforms, in their order.
    platforms: list[bool | None]

    def is_of(self, genre: str) -> bool:
        return genre.strip().lower() in self.genres


@dataclass(frozen=True)
class Review:
    """A row of reviews that takes part."""

    app_id: int
    text: str
    score: Fraction


def answers(
    first: Path,
    second: Path,
    params: Mapping[str, object] = NO_PARAMS,
    *,
    is_english: Detector,
) -> dict[str, bytes]:
    """The result files q1 to q5 as they must be written."""
    settings = Params(DEFAULTS, params)
    games = first_of_each_id(first)
    reviews = reviews_of(games, second)
    negative = _negative_texts(reviews)
    named = ("app_id", "name", "reviews")
    return {
        "q1": csv_file(("platform", "games"), q1(games.values())),
        "q2": csv_file(("rank", "app_id", "name", "average_playtime"), q2(games, settings)),
        "q3": csv_file(("rank", *named), q3(games, reviews, settings)),
        "q4": csv_file(named, q4(games, negative, settings, is_english)),
        "q5": csv_file(named, q5(games, negative, settings)),
    }


def rejected(path: Path, source: str) -> list[int]:
    """The numbers of the rows that cannot be read."""
    return rejected_of(rows(path, NEEDED[source], KINDS[source], FORMS[source]))


def first_of_each_id(path: Path) -> dict[int, Game]:
    """The game that an id stands for: the first row of it that takes part."""
    found: dict[int, Game] = {}
    for _, row in rows(path, NEEDED["games"], KINDS["games"], FORMS["games"]):
        if row and row["AppID"] and row["Name"] and row["Genres"] and row["Release date"]:
            found.setdefault(whole(row["AppID"]), _game(row))
    return found


def _game(row: Row) -> Game:
    return Game(
        whole(row["AppID"]),
        row["Name"],
        [element.strip().lower() for element in row["Genres"].split(",")],
        year_in(row["Release date"]),
        row[PLAYTIME],
        [unless_lacking(boolean, row[platform]) for platform in PLATFORMS],
    )


def reviews_of(games: Games, path: Path) -> list[Review]:
    """The reviews that lack nothing and whose game is known."""
    found = []
    for _, row in rows(path, NEEDED["reviews"], KINDS["reviews"], FORMS["reviews"]):
        if row and row["app_id"] and row["review_text"] and row["review_score"]:
            app_id = whole(row["app_id"])
            if app_id in games:
                found.append(Review(app_id, row["review_text"], number(row["review_score"])))
    return found


def q1(games: Iterable[Game]) -> Sequence[Cells]:
    """How many games support each platform."""
    counts = dict.fromkeys(PLATFORMS, 0)
    for game in games:
        for platform, is_supported in zip(PLATFORMS, game.platforms, strict=True):
            counts[platform] += is_supported is True
    return sorted(counts.items())


def q2(games: Games, settings: Params) -> Sequence[Cells]:
    """The games of a genre and some years that are played longest."""
    first, last = settings.whole("q2.from_year"), settings.whole("q2.to_year")
    found = [
        game
        for game in games.values()
        if game.is_of(settings.text("q2.genre"))
        and game.year is not None
        and first <= game.year <= last
        and game.playtime != ""
    ]
    found.sort(key=lambda game: (-number(game.playtime), game.name, game.app_id))
    best = found[: settings.whole("q2.top")]
    return [
        (rank, game.app_id, game.name, game.playtime) for rank, game in enumerate(best, start=1)
    ]


def q3(games: Games, reviews: Iterable[Review], settings: Params) -> Sequence[Cells]:
    """The games of a genre with most positive reviews."""
    counts = Counter(review.app_id for review in reviews if review.score > 0)
    found = [
        (games[app_id], count)
        for app_id, count in counts.items()
        if games[app_id].is_of(settings.text("q3.genre"))
    ]
    found.sort(key=lambda pair: (-pair[1], pair[0].name, pair[0].app_id))
    best = found[: settings.whole("q3.top")]
    return [
        (rank, game.app_id, game.name, count) for rank, (game, count) in enumerate(best, start=1)
    ]


def q4(
    games: Games, negative: Mapping[int, list[str]], settings: Params, is_english: Detector
) -> Sequence[Cells]:
    """Games of a genre with many negative reviews in English."""
    most = settings.whole("q4.reviews")
    found = []
    for game in games.values():
        texts = negative.get(game.app_id, [])
        # The detector is slow, and few games have enough reviews of any language.
        if game.is_of(settings.text("q4.genre")) and len(texts) > most:
            count = sum(1 for text in texts if is_english(text))
            if count > most:
                found.append((game, count))
    return _by_name(found)


def q5(games: Games, negative: Mapping[int, list[str]], settings: Params) -> Sequence[Cells]:
    """Games of a genre whose number of negative reviews is among the highest."""
    found = [
        (games[app_id], len(texts))
        for app_id, texts in negative.items()
        if games[app_id].is_of(settings.text("q5.genre"))
    ]
    if not found:
        return []
    cut = numpy.percentile([count for _, count in found], settings.real("q5.percentile"))
    return _by_name([(game, count) for game, count in found if count >= cut])


def _negative_texts(reviews: Iterable[Review]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for review in reviews:
        if review.score < 0:
            found[review.app_id].append(review.text)
    return found


def _by_name(found: list[tuple[Game, int]]) -> Sequence[Cells]:
    found.sort(key=lambda pair: (pair[0].name, pair[0].app_id))
    return [(game.app_id, game.name, count) for game, count in found]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write q1.csv to q5.csv into a directory."""
    detector: Detector = importlib.import_module("booksan.language").is_english
    command("steam", NEEDED, partial(answers, is_english=detector), arguments)


if __name__ == "__main__":
    main()
