"""The data set `steam`: games and what their players wrote."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import polars as pl

from booksan.language import is_english
from booksan.spec import HOME
from booksan.stages.columns import compare, frame_of, whole
from booksan.stages.graph import Dataset, Keyed, Param, Params, Query, Source, Stage
from booksan.stages.kinds import ColumnType, FieldKind
from booksan.stages.operators import (
    FilteredTally,
    First,
    Give,
    Group,
    Percentile,
    Tally,
    Top,
    first_rows,
)

PLATFORMS = ("Windows", "Mac", "Linux")

# -- from parsed rows to the stages ----------------------------------------------------------


def route_games(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    games = frame.filter(
        pl.col("AppID") != "",
        pl.col("Name") != "",
        pl.col("Genres") != "",
        pl.col("Release date") != "",
    )
    games = games.select(
        "row",
        "Name",
        *(pl.col(name).str.to_lowercase() for name in PLATFORMS),
        id=whole(games["AppID"]).cast(pl.String),
        genres="Genres",
        year=pl.col("Release date").str.extract("([0-9]{4})").cast(pl.Int32),
        playtime="Average playtime forever",
    )
    of_years = pl.col("year").is_between(params["q2.from_year"], params["q2.to_year"])
    ranked = of_years.fill_null(False) & (pl.col("playtime") != "")
    return {
        "q1-first": first_rows(games, "id", None, *PLATFORMS),
        "q2-first": first_rows(
            games, "id", _of_genre(games, params["q2.genre"]) & ranked, "Name", "playtime"
        ),
        "q3-join": first_rows(games, "id", _of_genre(games, params["q3.genre"]), "Name"),
        "q4-english": first_rows(games, "id", _of_genre(games, params["q4.genre"]), "Name"),
        "q5-join": first_rows(games, "id", _of_genre(games, params["q5.genre"]), "Name"),
    }


def _of_genre(games: pl.DataFrame, genre: object) -> pl.Expr:
    """Games in whose list the genre is. There are few different lists."""
    wanted = str(genre).strip().lower()
    lists = games["genres"].unique()
    matching = [
        text for text in lists if wanted in (one.strip().lower() for one in text.split(","))
    ]
    return pl.col("genres").is_in(matching)


def route_reviews(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    reviews = frame.filter(
        pl.col("app_id") != "", pl.col("review_text") != "", pl.col("review_score") != ""
    )
    reviews = reviews.select(
        key=whole(reviews["app_id"]).cast(pl.String),
        text="review_text",
        opinion=compare(reviews["review_score"], Fraction(0)),
    )
    negative = reviews.filter(pl.col("opinion") < 0)
    return {
        "q3-join": Keyed(_counted(reviews.filter(pl.col("opinion") > 0)), "key"),
        "q4-english": Keyed(negative.select("key", "text"), "key"),
        "q5-join": Keyed(_counted(negative), "key"),
    }


def _counted(reviews: pl.DataFrame) -> pl.DataFrame:
    return reviews.group_by("key", maintain_order=True).agg(value=pl.lit(""), n=pl.len())


# -- the queries -----------------------------------------------------------------------------

COUNTED = {"key": ColumnType.TEXT, "value": ColumnType.TEXT, "n": ColumnType.INTEGER}
Q1 = {"platform": ColumnType.TEXT, "games": ColumnType.INTEGER}
PLAYED = {
    "app_id": ColumnType.INTEGER,
    "name": ColumnType.TEXT,
    "average_playtime": ColumnType.DECIMAL,
}
REVIEWED = {
    "app_id": ColumnType.INTEGER,
    "name": ColumnType.TEXT,
    "reviews": ColumnType.INTEGER,
}


def platforms(games: list[tuple[str, list[Any]]], params: Params) -> Mapping[str, Keyed]:
    """q1 of some games; platforms that none of them supports count 0."""
    counts = [
        (name, "", sum(supported[place] == "true" for _, supported in games))
        for place, name in enumerate(PLATFORMS)
    ]
    return {"q1-platforms": Keyed(frame_of(counts, COUNTED), "key")}


def all_platforms(found: list[Group], params: Params) -> Mapping[str, Keyed]:
    return {HOME: Keyed(frame_of([(one.key, one.total) for one in found], Q1))}


def played(games: list[tuple[str, list[Any]]], params: Params) -> Mapping[str, Keyed]:
    """q2, before the top is picked."""
    rows = [(int(app), name, playtime) for app, (name, playtime) in games]
    return {"q2-top": Keyed(frame_of(rows, PLAYED))}


def reviewed(stage: str) -> Give:
    """Games with at least one such review, for the stage that picks some of them."""

    def give(games: list[Group], params: Params) -> Mapping[str, Keyed]:
        rows = [(int(game.key), *game.kept, game.total) for game in games if game.total]
        return {stage: Keyed(frame_of(rows, REVIEWED))}

    return give


def _reviews(picks: str) -> Tally:
    """The reviews of each game, for the stage that picks some of them."""
    return Tally(reviewed(picks), earlier="games", keep=("Name",))


def in_english(games: list[tuple[str, list[Any], int]], params: Params) -> Mapping[str, Keyed]:
    """q4"""
    rows = [(int(app), *kept, passed) for app, kept, passed in games]
    return {HOME: Keyed(frame_of(rows, REVIEWED))}


# -- the declaration -------------------------------------------------------------------------

_JOIN = ("games", "reviews")

DATASET = Dataset(
    name="steam",
    version=2,
    about="games on Steam: platforms, playtimes, and what is said of them",
    sources=(
        Source(
            "games",
            needed=(
                "AppID",
                "Name",
                "Release date",
                *PLATFORMS,
                "Genres",
                "Average playtime forever",
            ),
            kinds={
                "AppID": FieldKind.WHOLE,
                "Average playtime forever": FieldKind.NUMBER,
                **dict.fromkeys(PLATFORMS, FieldKind.BOOLEAN),
            },
            route=route_games,
            # The header of the public file has one name less than there are columns.
            merged={"DiscountDLC count": ("Discount", "DLC count")},
            file_name="games.csv",
        ),
        Source(
            "reviews",
            needed=("app_id", "review_text", "review_score"),
            kinds={"app_id": FieldKind.WHOLE, "review_score": FieldKind.NUMBER},
            route=route_reviews,
            file_name="reviews.csv",
        ),
    ),
    stages=(
        Stage("q1-first", ("games",), First("games", platforms, keep=PLATFORMS), key="game"),
        Stage("q1-platforms", ("q1-first",), Tally(all_platforms), keyed=False),
        Stage(
            "q2-first",
            ("games",),
            First("games", played, keep=("Name", "playtime")),
            key="game",
        ),
        Stage(
            "q2-top",
            ("q2-first",),
            Top("q2.top", PLAYED, ("-average_playtime", "name", "app_id")),
            keyed=False,
        ),
        Stage("q3-join", _JOIN, _reviews("q3-top"), joins=("games",), key="game"),
        Stage(
            "q3-top",
            ("q3-join",),
            Top("q3.top", REVIEWED, ("-reviews", "name", "app_id")),
            keyed=False,
        ),
        Stage(
            "q4-english",
            _JOIN,
            FilteredTally(is_english, "q4.reviews", in_english, earlier="games", keep=("Name",)),
            joins=("games",),
            key="game",
            heavy=True,
        ),
        Stage("q5-join", _JOIN, _reviews("q5-percentile"), joins=("games",), key="game"),
        Stage(
            "q5-percentile",
            ("q5-join",),
            Percentile("q5.percentile", REVIEWED, of="reviews"),
            keyed=False,
        ),
    ),
    queries=(
        Query("q1", "q1-platforms", Q1, ("platform",), "games that each platform supports"),
        Query(
            "q2",
            "q2-top",
            {"rank": ColumnType.INTEGER, **PLAYED},
            ("rank",),
            "the %(q2.top)s %(q2.genre)s games of %(q2.from_year)s to %(q2.to_year)s with the "
            "highest average playtime",
        ),
        Query(
            "q3",
            "q3-top",
            {"rank": ColumnType.INTEGER, **REVIEWED},
            ("rank",),
            "the %(q3.top)s %(q3.genre)s games with most positive reviews",
        ),
        Query(
            "q4",
            "q4-english",
            REVIEWED,
            ("name", "app_id"),
            "%(q4.genre)s games with more than %(q4.reviews)s negative reviews in English",
        ),
        Query(
            "q5",
            "q5-percentile",
            REVIEWED,
            ("name", "app_id"),
            "%(q5.genre)s games whose negative reviews are at or above percentile "
            "%(q5.percentile)g",
        ),
    ),
    params=(
        Param("q2.genre", "Indie", "genre of a game, in any case"),
        Param("q2.from_year", 2010, "first year", 0, 9999),
        Param("q2.to_year", 2019, "last year", 0, 9999),
        Param("q2.top", 10, "how many of the most played", 0, 10**9),
        Param("q3.genre", "Indie", "genre of a game, in any case"),
        Param("q3.top", 5, "how many of the most liked", 0, 10**9),
        Param("q4.genre", "Action", "genre of a game, in any case"),
        Param("q4.reviews", 5000, "reviews that a game must pass", 0, 10**12),
        Param("q5.genre", "Action", "genre of a game, in any case"),
        Param("q5.percentile", 90.0, "percentile of the numbers", 0, 100),
    ),
)
