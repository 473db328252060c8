"""The five queries on games and their reviews with DuckDB, and py3langid over a pool.

The reviews are read once, joined on the way with the games; only the texts that q4 may need are
kept. DuckDB keeps the order of a file when it makes a table of it, so `rowid` tells which of two
games came first.
"""

import csv
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from booksan.bench.baseline import (
    CORES,
    DIALECT,
    LONG,
    PLACES,
    Baseline,
    Row,
    Size,
    connect,
    fetch,
    forget_order,
    parse_arguments,
    write_answers,
)

if TYPE_CHECKING:
    import duckdb

BASELINE = Baseline("DuckDB + py3langid", needs=("duckdb",))
#: As many games as the public files have for so many reviews; some more if there are few.
SIZE = Size(
    rows=300_000,
    first_rows=lambda rows: max(1, rows * 97_410 // 6_417_106, min(100, rows // 10)),
)

HEADERS = {
    "q1": ("platform", "games"),
    "q2": ("rank", "app_id", "name", "average_playtime"),
    "q3": ("rank", "app_id", "name", "reviews"),
    "q4": ("app_id", "name", "reviews"),
    "q5": ("app_id", "name", "reviews"),
}

#: What Python's `strip` strips.
BLANKS = "".join(char for char in map(chr, range(0x3001)) if char.isspace())
#: Stands over two columns in a header that has one name less than the rows have fields.
MERGED = "DiscountDLC count"
#: Texts handed to a process of the pool at once: tens of milliseconds of work.
CHUNK = 256


@dataclass(frozen=True)
class Parameters:
    q2_genre: str = "Indie"
    q2_from_year: int = 2010
    q2_to_year: int = 2019
    q2_top: int = 10
    q3_genre: str = "Indie"
    q3_top: int = 5
    q4_genre: str = "Action"
    q4_reviews: int = 5000
    q5_genre: str = "Action"
    q5_percentile: float = 90.0


GENRES = "[lower(trim(genre, ?)) FOR genre IN string_split(\"Genres\", ',')]"

GAMES = f"""
CREATE TABLE every_game AS
SELECT CAST("AppID" AS BIGINT) AS app_id, "Name" AS name,
       CAST("Windows" AS BOOLEAN) AS windows, CAST("Mac" AS BOOLEAN) AS mac,
       CAST("Linux" AS BOOLEAN) AS linux, {GENRES} AS genres,
       TRY_CAST(regexp_extract("Release date", '[0-9]{{4}}') AS INTEGER) AS year,
       "Average playtime forever" AS playtime
FROM read_csv(?, delim = ',', header = false, skip = 1, columns = ?, {DIALECT}, {LONG})
WHERE "AppID" IS NOT NULL AND "Name" IS NOT NULL AND "Genres" IS NOT NULL
  AND "Release date" IS NOT NULL
"""

FIRST = """
CREATE TABLE games AS
SELECT *, list_contains(genres, ?) AS of_q3, list_contains(genres, ?) AS of_q4,
       list_contains(genres, ?) AS of_q5
FROM every_game WHERE rowid IN (SELECT min(rowid) FROM every_game GROUP BY app_id)
"""

REVIEWS = f"""
CREATE TABLE reviews AS
SELECT games.app_id, score > 0 AS positive,
       CASE WHEN score < 0 AND of_q4 THEN review_text END AS text
FROM (SELECT CAST(app_id AS BIGINT) AS app_id, review_text,
             CAST(review_score AS DECIMAL(18, {PLACES})) AS score
      FROM read_csv(?, delim = ',', header = true, {DIALECT}, {LONG})
      WHERE review_text IS NOT NULL) AS review
JOIN games ON games.app_id = review.app_id
WHERE (score > 0 AND of_q3) OR (score < 0 AND (of_q4 OR of_q5))
"""

Q1 = """
SELECT count(*) FILTER (linux), count(*) FILTER (mac), count(*) FILTER (windows) FROM games
"""

Q2 = f"""
SELECT app_id, name, playtime FROM games
WHERE list_contains(genres, ?) AND year BETWEEN ? AND ? AND playtime IS NOT NULL
ORDER BY CAST(playtime AS DECIMAL(18, {PLACES})) DESC, name, app_id LIMIT ?
"""

Q3 = """
SELECT app_id, any_value(name) AS name, count(*) AS reviews
FROM reviews JOIN games USING (app_id) WHERE positive AND of_q3
GROUP BY app_id ORDER BY reviews DESC, name, app_id LIMIT ?
"""

# Only of games that can still pass, whatever the language of their reviews is. Many write the same.
TEXTS = """
SELECT app_id, text, count(*) FROM reviews WHERE app_id IN (
    SELECT app_id FROM reviews WHERE text IS NOT NULL GROUP BY app_id HAVING count(*) > ?)
  AND text IS NOT NULL
GROUP BY app_id, text
"""

NAMES = "SELECT app_id, name FROM games WHERE of_q4 ORDER BY name, app_id"

Q5 = """
SELECT app_id, any_value(name) AS name, count(*) AS reviews
FROM reviews JOIN games USING (app_id) WHERE NOT positive AND of_q5
GROUP BY app_id ORDER BY name, app_id
"""


def columns_of(path: Path) -> dict[str, str]:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        names, fields = next(rows), next(rows, [])
    if len(fields) == len(names) + 1 and MERGED in names:
        place = names.index(MERGED)
        names[place : place + 1] = ["Discount", "DLC count"]
    return dict.fromkeys(names, "VARCHAR")


def read(
    database: "duckdb.DuckDBPyConnection", games: Path, reviews: Path, wanted: Parameters
) -> None:
    database.execute(GAMES, [BLANKS, str(games), columns_of(games)])
    genres = (wanted.q3_genre, wanted.q4_genre, wanted.q5_genre)
    database.execute(FIRST, [genre.strip().lower() for genre in genres])
    forget_order(database)
    database.execute(REVIEWS, [str(reviews)])


def ranked(found: Iterable[Row]) -> list[Row]:
    return [(rank, *row) for rank, row in enumerate(found, start=1)]


def most_played(database: "duckdb.DuckDBPyConnection", wanted: Parameters) -> list[Row]:
    years = (wanted.q2_from_year, wanted.q2_to_year)
    genre = wanted.q2_genre.strip().lower()
    return ranked(fetch(database, Q2, genre, *years, wanted.q2_top))


def most_disliked(database: "duckdb.DuckDBPyConnection", percentile: float) -> list[Row]:
    import numpy as np

    found = fetch(database, Q5)
    if not found:
        return []
    cut = np.percentile([reviews for _, _, reviews in found], percentile)
    return [row for row in found if row[2] >= cut]


def english_reviews(review: tuple[int, str, int]) -> tuple[int, int]:
    """Runs in the pool: the game, and how many wrote the text, if it is English."""
    from booksan.language import is_english

    app_id, text, number = review
    return app_id, number if is_english(text) else 0


def count_english(reviews: Sequence[tuple[int, str, int]]) -> Counter[int]:
    """Fork when the detector is loaded, and when the engine with its threads is gone."""
    counts: Counter[int] = Counter()
    if not reviews:
        return counts
    english_reviews(reviews[0])
    with multiprocessing.get_context("fork").Pool(CORES) as pool:
        for app_id, number in pool.imap_unordered(english_reviews, reviews, chunksize=CHUNK):
            counts[app_id] += number
    return counts


def main() -> None:
    given = parse_arguments(__doc__, Parameters, ("games", "reviews"))
    wanted = given.parameters
    games, reviews = given.files
    with connect() as database:
        read(database, games, reviews, wanted)
        answers: dict[str, list[Row]] = {
            "q1": list(zip(("Linux", "Mac", "Windows"), fetch(database, Q1)[0], strict=True)),
            "q2": most_played(database, wanted),
            "q3": ranked(fetch(database, Q3, wanted.q3_top)),
            "q5": most_disliked(database, wanted.q5_percentile),
        }
        names = fetch(database, NAMES)
        texts = fetch(database, TEXTS, wanted.q4_reviews)
    english = count_english(texts)
    answers["q4"] = [
        (app_id, name, english[app_id])
        for app_id, name in names
        if english[app_id] > wanted.q4_reviews
    ]
    write_answers(given.out, HEADERS, answers)


if __name__ == "__main__":
    main()
