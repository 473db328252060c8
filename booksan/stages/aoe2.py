"""The data set `aoe2`: matches of Age of Empires II, their players and civilisations."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import polars as pl

from booksan.spec import HOME
from booksan.stages.columns import frame_of, over, rounded, threshold
from booksan.stages.graph import Dataset, Keyed, Param, Params, Query, Source, Stage
from booksan.stages.kinds import ColumnType, FieldKind, clock_seconds
from booksan.stages.operators import First, Give, Group, Tally, Top, first_rows

SECONDS_IN_AN_HOUR = 3600

# -- from parsed rows to the stages ----------------------------------------------------------


def route_matches(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    matches = frame.filter(pl.col("token") != "")
    matches = matches.with_columns(long=_long_and_high(matches, params))
    of_q3 = _is("ladder", params["q3.ladder"]) & _is("map", params["q3.map"])
    of_q4 = _is("ladder", params["q4.ladder"]) & _is("map", params["q4.map"])
    different = pl.col("mirror").str.to_lowercase() == "false"
    return {
        "q1-first": first_rows(matches, "token", pl.col("long")),
        "q2-duel": first_rows(matches, "token", _is("ladder", params["q2.ladder"])),
        "q3-join": first_rows(matches, "token", of_q3 & different),
        "q4-join": first_rows(matches, "token", of_q4),
    }


def _is(column: str, value: object) -> pl.Expr:
    """A value that is lacking is none, whatever is asked for."""
    return (pl.col(column) == value) & (pl.col(column) != "")


def _long_and_high(matches: pl.DataFrame, params: Params) -> pl.Series:
    """q1's matches. Few are of its servers, so their durations can be taken one by one."""
    servers = [name for name in str(params["q1.servers"]).split(",") if name]
    likely = matches["server"].is_in(servers) & over(
        matches["average_rating"], threshold(params["q1.rating"])
    )
    least = threshold(params["q1.hours"]) * SECONDS_IN_AN_HOUR
    found = [
        chance and (seconds := clock_seconds(text)) is not None and seconds > least
        for text, chance in zip(matches["duration"], likely, strict=True)
    ]
    return pl.Series("long", found, dtype=pl.Boolean)


def route_players(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    """Winners are `true` or `false`, or nothing where it is not said."""
    players = frame.select(
        "match", "rating", "civ", winner=pl.col("winner").str.to_lowercase()
    ).filter(pl.col("match") != "")
    high = players.filter(over(players["rating"], threshold(params["q4.rating"])))
    return {
        "q2-duel": Keyed(
            _counted(players, key="match", value=pl.format("{} {}", "winner", "rating")), "key"
        ),
        "q3-join": Keyed(
            _counted(
                players.filter(pl.col("civ") != "", pl.col("winner") != ""),
                "match",
                key="civ",
                value=pl.col("winner"),
            ),
            "match",
        ),
        "q4-join": Keyed(
            _counted(high.filter(pl.col("civ") != ""), "match", key="civ", value=pl.lit("")),
            "match",
        ),
    }


def _counted(players: pl.DataFrame, *on: str, key: str, value: pl.Expr) -> pl.DataFrame:
    rows = players.select(*on, key=pl.col(key), value=value)
    return rows.group_by(rows.columns, maintain_order=True).agg(n=pl.len())


# -- the queries -----------------------------------------------------------------------------

MATCH = {"match": ColumnType.TEXT}
COUNTED = {"key": ColumnType.TEXT, "value": ColumnType.TEXT, "n": ColumnType.INTEGER}
Q3 = {"civ": ColumnType.TEXT, "win_rate": ColumnType.REAL, "games": ColumnType.INTEGER}
USED = {"civ": ColumnType.TEXT, "uses": ColumnType.INTEGER}


def of_matches(matches: list[tuple[str, list[Any]]], params: Params) -> Mapping[str, Keyed]:
    """q1"""
    return {HOME: Keyed(frame_of([(token,) for token, _ in matches], MATCH))}


def upsets(matches: list[Group], params: Params) -> Mapping[str, Keyed]:
    """q2: the winner was rated, and the loser far higher."""
    found = [(match.key,) for match in matches if _is_upset(match, params)]
    return {HOME: Keyed(frame_of(found, MATCH))}


def likely_upsets(players: pl.DataFrame, params: Params) -> pl.DataFrame:
    """Floats leave out pairs in which the loser is surely not so much higher."""
    rating = pl.col("value").str.replace("^[a-z]* ", "").str.strip_chars(" ")
    won = pl.col("value").str.starts_with("true ")
    numbers = players.with_columns(rating=rating.cast(pl.Float64, strict=False))
    pairs = numbers.group_by("key").agg(
        pl.len(),
        pl.col("n").sum(),
        winner=pl.when(won).then("rating").max(),
        loser=pl.when(~won).then("rating").max(),
    )
    winner, loser = pl.col("winner"), pl.col("loser")
    limit = winner * (1 + float(params["q2.margin"]))
    doubt = (winner.abs() + loser.abs()) * 1e-9
    # A null is a number that polars cannot read.
    likely = ((winner <= 0) | (loser + doubt >= limit)).fill_null(True)
    pairs = pairs.filter(pl.col("len") == 2, pl.col("n") == 2, likely)
    return players.join(pairs, on="key", how="semi")


def _is_upset(match: Group, params: Params) -> bool:
    if match.total != 2 or len(match.counts) != 2:
        # Two players of the very same rating and fate are no winner and loser.
        return False
    players = dict(value.split(" ", 1) for value, _ in match.counts)
    if not (players.get("true") and players.get("false")):
        return False
    winner, loser = (Fraction(players[fate].strip(" ")) for fate in ("true", "false"))
    if winner <= threshold(params["q2.rating"]) or winner == 0:
        return False
    return (loser - winner) / winner > threshold(params["q2.margin"])


def passed_on(stage: str) -> Give:
    """The counts of one shard, for the stage that adds those of all."""

    def give(civs: list[Group], params: Params) -> Mapping[str, Keyed]:
        rows = [(civ.key, value, n) for civ in civs for value, n in civ.counts]
        return {stage: Keyed(frame_of(rows, COUNTED), "key")}

    return give


def win_rates(civs: list[Group], params: Params) -> Mapping[str, Keyed]:
    """q3"""
    found = [
        (civ.key, rounded(Fraction(100 * dict(civ.counts).get("true", 0), civ.total)), civ.total)
        for civ in civs
    ]
    return {HOME: Keyed(frame_of(found, Q3))}


def uses(civs: list[Group], params: Params) -> Mapping[str, Keyed]:
    """q4, before the most used are picked."""
    return {"q4-top": Keyed(frame_of([(civ.key, civ.total) for civ in civs], USED))}


# -- the declaration -------------------------------------------------------------------------

DATASET = Dataset(
    name="aoe2",
    version=2,
    about="matches of Age of Empires II: long ones, upsets, and what civilisations are worth",
    sources=(
        Source(
            "matches",
            needed=("token", "mirror", "ladder", "average_rating", "map", "server", "duration"),
            kinds={
                "mirror": FieldKind.BOOLEAN,
                "average_rating": FieldKind.NUMBER,
                "duration": FieldKind.CLOCK_DURATION,
            },
            route=route_matches,
            file_name="matches.csv",
        ),
        Source(
            "players",
            needed=("match", "rating", "civ", "winner"),
            kinds={"rating": FieldKind.NUMBER, "winner": FieldKind.BOOLEAN},
            route=route_players,
            file_name="match_players.csv",
        ),
    ),
    stages=(
        Stage("q1-first", ("matches",), First("matches", of_matches), key="match"),
        Stage(
            "q2-duel",
            ("matches", "players"),
            Tally(upsets, earlier="matches", narrow=likely_upsets),
            joins=("matches",),
            key="match",
        ),
        Stage(
            "q3-join",
            ("matches", "players"),
            Tally(passed_on("q3-rate"), earlier="matches", on="match"),
            joins=("matches",),
            key="match",
        ),
        Stage("q3-rate", ("q3-join",), Tally(win_rates), key="civ"),
        Stage(
            "q4-join",
            ("matches", "players"),
            Tally(passed_on("q4-uses"), earlier="matches", on="match"),
            joins=("matches",),
            key="match",
        ),
        Stage("q4-uses", ("q4-join",), Tally(uses), key="civ"),
        Stage("q4-top", ("q4-uses",), Top("q4.top", USED, ("-uses", "civ")), keyed=False),
    ),
    queries=(
        Query(
            "q1",
            "q1-first",
            MATCH,
            ("match",),
            "matches over %(q1.hours)g hours with a mean rating over %(q1.rating)g on "
            "%(q1.servers)s",
        ),
        Query(
            "q2",
            "q2-duel",
            MATCH,
            ("match",),
            "%(q2.ladder)s matches won by a player rated over %(q2.rating)g against one rated "
            "more than %(q2.margin)g of that higher",
        ),
        Query(
            "q3",
            "q3-rate",
            Q3,
            ("civ",),
            "win rate of each civilisation in %(q3.ladder)s matches on %(q3.map)s against another",
        ),
        Query(
            "q4",
            "q4-top",
            {"rank": ColumnType.INTEGER, **USED},
            ("rank",),
            "the %(q4.top)s civilisations most used by players rated over %(q4.rating)g in "
            "%(q4.ladder)s matches on %(q4.map)s",
        ),
    ),
    params=(
        Param("q1.hours", 2.0, "hours that a match must pass", 0, 10**9),
        Param("q1.rating", 2000.0, "mean rating that must be passed", -(10**9), 10**9),
        Param("q1.servers", "koreacentral,southeastasia,eastus", "servers, between commas"),
        Param("q2.ladder", "RM_1v1", "ladder"),
        Param("q2.rating", 1000.0, "rating that the winner must pass", -(10**9), 10**9),
        Param("q2.margin", 0.3, "how much higher the loser is rated, as a share", -(10**9), 10**9),
        Param("q3.ladder", "RM_1v1", "ladder"),
        Param("q3.map", "arena", "map"),
        Param("q4.ladder", "RM_TEAM", "ladder"),
        Param("q4.map", "islands", "map"),
        Param("q4.rating", 2000.0, "rating that a player must pass", -(10**9), 10**9),
        Param("q4.top", 5, "how many of the most used", 0, 10**9),
    ),
)
