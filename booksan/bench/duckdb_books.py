"""The five book queries with DuckDB, and TextBlob over a pool of two processes.

q1 to q4 are SQL. The reviews are read once; only the texts that q5 needs are kept. DuckDB keeps
the order of a file when it makes a table of it, so `rowid` tells which of two titles came first.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from booksan.bench.baseline import (
    DIALECT,
    LONG,
    Arguments,
    Baseline,
    Size,
    connect,
    fetch,
    parse_arguments,
    write_answers,
)
from booksan.bench.books import (
    HEADERS,
    SOURCES,
    Parameters,
    best_polarities,
    best_scores,
    books_for,
    in_order,
    python_list,
    start_pool,
    with_lists,
)

if TYPE_CHECKING:
    import duckdb

BASELINE = Baseline("DuckDB + TextBlob", needs=("duckdb",))
SIZE = Size(rows=300_000, first_rows=books_for)

#: Rows taken from DuckDB at a time on their way to the pool.
FETCH = 2048

CSV = f"read_csv(?, delim = ',', header = true, {DIALECT}, {LONG})"

BOOKS = f"""
CREATE TABLE books AS
SELECT "Title" AS title, python_list(authors) AS authors, publisher,
       python_list(categories) AS categories,
       CAST(regexp_extract("publishedDate", '[0-9]{{4}}') AS INTEGER) AS year
FROM {CSV}
WHERE "Title" <> '' AND authors <> '' AND categories <> ''
  AND regexp_matches("publishedDate", '[0-9]{{4}}')
"""

# A condition on the lists in the query above would parse each of them a second time.
EMPTY = "DELETE FROM books WHERE len(authors) = 0 OR len(categories) = 0"

CATALOGUE = """
CREATE TABLE catalogue AS
SELECT title, authors, year BETWEEN ? AND ? AS of_years, list_contains(categories, ?) AS of_category
FROM books
WHERE rowid IN (SELECT min(rowid) FROM books GROUP BY title)
"""

REVIEWS = f"""
CREATE TABLE reviews AS
SELECT catalogue.title, "review/score" AS score,
       CASE WHEN of_category THEN "review/text" END AS text
FROM {CSV} AS review
JOIN catalogue ON catalogue.title = review."Title"
WHERE of_years OR of_category
"""

Q1 = """
SELECT title, authors, publisher FROM books
WHERE list_contains(categories, ?) AND year BETWEEN ? AND ? AND contains(lower(title), lower(?))
"""

Q2 = """
SELECT author, count(DISTINCT year // 10) AS decades
FROM (SELECT unnest(authors) AS author, year FROM books)
GROUP BY author HAVING count(DISTINCT year // 10) >= ?
ORDER BY author
"""

Q3 = """
CREATE TABLE q3 AS
SELECT title, any_value(authors) AS authors, count(*) AS reviews
FROM reviews JOIN catalogue USING (title)
WHERE of_years
GROUP BY title HAVING count(*) >= ?
"""

Q4 = """
SELECT title, score, count(*) FROM reviews
WHERE score <> '' AND title IN (SELECT title FROM q3)
GROUP BY title, score
"""


def read(database: "duckdb.DuckDBPyConnection", given: Arguments[Parameters]) -> None:
    wanted = given.parameters
    books, reviews = given.files
    database.create_function("python_list", python_list, ["VARCHAR"], "VARCHAR[]")
    database.execute(BOOKS, [str(books)])
    database.execute(EMPTY)
    database.execute(CATALOGUE, [wanted.q3_from_year, wanted.q3_to_year, wanted.q5_category])
    database.execute(REVIEWS, [str(reviews)])


def texts(database: "duckdb.DuckDBPyConnection") -> Iterator[tuple[str, str]]:
    """A cursor of its own: the pool asks for rows from another thread."""
    cursor = database.cursor()
    cursor.execute("SELECT title, text FROM reviews WHERE text <> ''")
    while rows := cursor.fetchmany(FETCH):
        yield from rows


def main() -> None:
    given = parse_arguments(__doc__, Parameters, SOURCES)
    wanted = given.parameters
    with start_pool() as pool, connect() as database:
        read(database, given)
        q1 = (wanted.q1_category, wanted.q1_from_year, wanted.q1_to_year, wanted.q1_word)
        database.execute(Q3, [wanted.q3_min_reviews])
        answers = {
            "q1": in_order(fetch(database, Q1, *q1)),
            "q2": fetch(database, Q2, wanted.q2_decades),
            "q3": with_lists(fetch(database, "FROM q3 ORDER BY title")),
            "q4": best_scores(fetch(database, Q4), wanted.q4_top),
            "q5": best_polarities(pool, texts(database), wanted.q5_percentile),
        }
        write_answers(given.out, HEADERS, answers)


if __name__ == "__main__":
    main()
