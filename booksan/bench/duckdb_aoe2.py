"""The four queries on matches of Age of Empires II with DuckDB.

The players are read once, joined on the way with the matches that a query can use. DuckDB keeps
the order of a file when it makes a table of it, so `rowid` tells which of two tokens came first.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from booksan.bench.baseline import (
    DIALECT,
    PLACES,
    Baseline,
    Row,
    Size,
    connect,
    cut,
    fetch,
    forget_order,
    parse_arguments,
    write_answers,
)

if TYPE_CHECKING:
    import duckdb

BASELINE = Baseline("DuckDB", needs=("duckdb",))
#: As many matches as the public files have for so many players.
SIZE = Size(rows=1_000_000, first_rows=lambda rows: max(1, rows * 3_153_767 // 9_732_500))

HEADERS = {
    "q1": ("match",),
    "q2": ("match",),
    "q3": ("civ", "win_rate", "games"),
    "q4": ("rank", "civ", "uses"),
}

SECONDS_IN_AN_HOUR = 3600


@dataclass(frozen=True)
class Parameters:
    q1_hours: float = 2.0
    q1_rating: float = 2000.0
    q1_servers: str = "koreacentral,southeastasia,eastus"
    q2_ladder: str = "RM_1v1"
    q2_rating: float = 1000.0
    q2_margin: float = 0.3
    q3_ladder: str = "RM_1v1"
    q3_map: str = "arena"
    q4_ladder: str = "RM_TEAM"
    q4_map: str = "islands"
    q4_rating: float = 2000.0
    q4_top: int = 5


CSV = f"read_csv(?, delim = ',', header = true, {DIALECT})"
NUMBER = f"DECIMAL(18, {PLACES})"

MATCHES = f"""
CREATE TABLE every_match AS
SELECT token, duration, server, CAST(average_rating AS {NUMBER}) AS rating,
       coalesce(ladder = ?, false) AS of_q2,
       coalesce(ladder = ? AND map = ? AND NOT CAST(mirror AS BOOLEAN), false) AS of_q3,
       coalesce(ladder = ? AND map = ?, false) AS of_q4
FROM {CSV}
WHERE token IS NOT NULL
"""

FIRST = """
CREATE TABLE matches AS
SELECT rowid AS number, * FROM every_match
WHERE rowid IN (SELECT min(rowid) FROM every_match GROUP BY token)
"""

PLAYERS = f"""
CREATE TABLE players AS
SELECT number, CAST(player.rating AS {NUMBER}) AS rating, civ, CAST(winner AS BOOLEAN) AS winner,
       of_q2, of_q3, of_q4
FROM {CSV} AS player JOIN matches ON matches.token = player.match
WHERE of_q2 OR of_q3 OR of_q4
"""

# The seconds of a duration are worked out for the few matches that the rest leaves.
Q1 = f"""
WITH likely AS MATERIALIZED (
    SELECT token, duration, string_split(split_part(duration, ', ', -1), ':') AS clock
    FROM matches WHERE list_contains(string_split(?, ','), server) AND rating > ?)
SELECT token FROM likely
WHERE 86400 * coalesce(TRY_CAST(split_part(duration, ' day', 1) AS BIGINT), 0)
      + 3600 * CAST(clock[1] AS BIGINT) + 60 * CAST(clock[2] AS BIGINT)
      + CAST(clock[3] AS {NUMBER}) > ?
ORDER BY token
"""

Q2 = """
WITH duels AS (
    SELECT number, max(rating) FILTER (winner) AS won, max(rating) FILTER (NOT winner) AS lost
    FROM players WHERE of_q2
    GROUP BY number
    HAVING count(*) = 2 AND count(rating) = 2 AND count(*) FILTER (winner) = 1
           AND count(*) FILTER (NOT winner) = 1)
SELECT token FROM duels JOIN matches USING (number)
WHERE won > ? AND CASE WHEN won > 0 THEN lost - won > won * ?
                       WHEN won < 0 THEN lost - won < won * ? END
ORDER BY token
"""

Q3 = """
SELECT civ, count(*) FILTER (winner), count(*) FROM players
WHERE of_q3 AND civ IS NOT NULL AND winner IS NOT NULL
GROUP BY civ ORDER BY civ
"""

Q4 = """
SELECT civ, count(*) AS uses FROM players
WHERE of_q4 AND civ IS NOT NULL AND rating > ?
GROUP BY civ ORDER BY uses DESC, civ LIMIT ?
"""


def read(
    database: "duckdb.DuckDBPyConnection", matches: Path, players: Path, wanted: Parameters
) -> None:
    places = (wanted.q2_ladder, wanted.q3_ladder, wanted.q3_map, wanted.q4_ladder, wanted.q4_map)
    database.execute(MATCHES, [*places, str(matches)])
    database.execute(FIRST)
    forget_order(database)
    database.execute(PLAYERS, [str(players)])


def exactly(value: float) -> Fraction:
    """A parameter is the decimal that it is written as: 0.3 is 3/10."""
    return Fraction(repr(value))


def long_matches(database: "duckdb.DuckDBPyConnection", wanted: Parameters) -> list[Row]:
    seconds = cut(exactly(wanted.q1_hours) * SECONDS_IN_AN_HOUR)
    return fetch(database, Q1, wanted.q1_servers, cut(exactly(wanted.q1_rating)), seconds)


def upsets(database: "duckdb.DuckDBPyConnection", wanted: Parameters) -> list[Row]:
    least, margin = cut(exactly(wanted.q2_rating)), Decimal(repr(wanted.q2_margin))
    return fetch(database, Q2, least, margin, margin)


def most_used(database: "duckdb.DuckDBPyConnection", wanted: Parameters) -> list[Row]:
    found = fetch(database, Q4, cut(exactly(wanted.q4_rating)), wanted.q4_top)
    return [(rank, civ, uses) for rank, (civ, uses) in enumerate(found, start=1)]


def main() -> None:
    given = parse_arguments(__doc__, Parameters, ("matches", "players"))
    wanted = given.parameters
    matches, players = given.files
    with connect() as database:
        read(database, matches, players, wanted)
        answers: dict[str, list[Row]] = {
            "q1": long_matches(database, wanted),
            "q2": upsets(database, wanted),
            "q3": [(civ, 100 * won / games, games) for civ, won, games in fetch(database, Q3)],
            "q4": most_used(database, wanted),
        }
        write_answers(given.out, HEADERS, answers)


if __name__ == "__main__":
    main()
