"""Which rows of the books data set reach which stage, and which of them count."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan.datasets import dataset_named
from booksan.messages import Kind, Message, to_body
from booksan.stages.books import route_books, route_reviews
from booksan.stages.graph import Keyed
from booksan.stages.literals import elements
from booksan.stages.operator import Context
from booksan.stages.operators import Tally
from tests.unit.test_spec import make_spec

BOOKS = dataset_named("books")

PARAMS = BOOKS.defaults
COLUMNS = ("Title", "authors", "publisher", "publishedDate", "categories")
Book = tuple[str, str, str, str, str]
DUNE: Book = ("Dune", "['Frank Herbert']", "Ace", "1995-06-01", "['Fiction']")

books = st.lists(
    st.tuples(
        st.sampled_from(["Dune", "Emma", "It", ""]),
        st.sampled_from(["['A']", "['A', 'B, Jr.']", "['B, Jr.']", "A", "[]", "['']", ""]),
        st.sampled_from(["Ace", ""]),
        st.sampled_from(["1989", "1990-01-01", "1999*", "2000", "c. 195", "", "20051"]),
        st.sampled_from(["['Fiction']", "['Science Fiction']", "['A', 'Fiction']", "[]", ""]),
    ),
    max_size=8,
)


def changed(**changes: str) -> Book:
    found = dict(zip(COLUMNS, DUNE, strict=True)) | changes
    return (
        found["Title"],
        found["authors"],
        found["publisher"],
        found["publishedDate"],
        found["categories"],
    )


def frame_of(rows: Sequence[Book]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, dict.fromkeys(COLUMNS, pl.String), orient="row")
    return frame.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"))


def routed(rows: Sequence[Book]) -> Mapping[str, Keyed]:
    return route_books(frame_of(rows), PARAMS)


def rows_for(stage: str, rows: Sequence[Book]) -> list[dict[str, Any]]:
    return routed(rows)[stage].frame.to_dicts()


def reviews_of(rows: Sequence[tuple[str, str, str]]) -> Mapping[str, Keyed]:
    names = ("Title", "review/score", "review/text")
    frame = pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")
    numbers = pl.int_range(pl.len(), dtype=pl.UInt32).alias("row")
    return route_reviews(frame.with_columns(numbers), PARAMS)


def taking_part(rows: Sequence[Book]) -> list[tuple[int, str, list[str], str, int, list[str]]]:
    """By definition, row by row."""
    found = []
    for number, (title, authors, publisher, date, categories) in enumerate(rows):
        year = re.search("[0-9]{4}", date)
        names = elements(authors) if authors else []
        held = elements(categories) if categories else []
        if title and names and held and year:
            found.append((number, title, names, publisher, int(year[0]), held))
    return found


@settings(deadline=None, max_examples=150)
@given(rows=books)
def test_every_stage_gets_the_rows_of_the_definition(rows: list[Book]) -> None:
    found = routed(rows)
    everyone = taking_part(rows)
    assert found["q1-filter"].frame.select(
        "title", "authors", "publisher", "year", "categories"
    ).rows() == [
        (title, names, publisher, year, held) for _, title, names, publisher, year, held in everyone
    ]
    decades = found["q2-decades"].frame.select("key", "value").rows()
    assert len(decades) == len(set(decades))
    assert set(decades) == {
        (name, str(year // 10)) for _, _, names, _, year, _ in everyone for name in names
    }
    first: dict[str, tuple[int, bool, bool, list[str]]] = {}
    for number, title, names, _, year, held in everyone:
        first.setdefault(title, (number, 1990 <= year <= 1999, "Fiction" in held, names))
    assert found["q3-join"].frame.select("key", "row", "wanted", "authors").rows() == [
        (title, number, years, authors if years else None)
        for title, (number, years, _, authors) in first.items()
    ]
    assert found["q5-sentiment"].frame.select("key", "row", "wanted").rows() == [
        (title, number, fiction) for title, (number, _, fiction, _) in first.items()
    ]


def test_every_stage_that_reads_a_source_gets_a_frame() -> None:
    """A stage left out would wait for its numbers for ever; the home's count comes elsewhere."""
    for source, found in (("books", routed([DUNE])), ("reviews", reviews_of([("Dune", "5", "x")]))):
        readers = {stage.name for stage in BOOKS.receivers[source]} - {"results"}
        assert set(found) == readers
        for keyed in found.values():
            assert keyed.key in keyed.frame.columns


@pytest.mark.parametrize(
    "rows",
    [[], [changed(Title="")], [changed(authors="[]"), changed(publishedDate="soon")]],
)
def test_pitfall_a_batch_without_any_row_left_has_empty_frames_with_all_columns(
    rows: list[Book],
) -> None:
    full = routed([DUNE])
    for stage, keyed in routed(rows).items():
        assert keyed.frame.height == 0
        assert keyed.frame.schema == full[stage].frame.schema
        assert keyed.key == full[stage].key


@pytest.mark.parametrize(
    "row",
    [
        changed(Title=""),
        changed(authors=""),
        changed(authors="[]"),
        changed(authors="['']"),
        changed(categories=""),
        changed(categories="[]"),
        changed(publishedDate=""),
        changed(publishedDate="195?"),
        changed(publishedDate="unknown"),
        changed(publishedDate="１９９５"),
    ],
)
def test_a_book_that_lacks_something_takes_no_part(row: Book) -> None:
    assert taking_part([row]) == []
    assert all(keyed.frame.height == 0 for keyed in routed([row]).values())


def test_a_book_without_publisher_takes_part() -> None:
    assert rows_for("q1-filter", [changed(publisher="")])[0]["publisher"] == ""


@pytest.mark.parametrize(
    ("date", "year"),
    [
        ("1996", 1996),
        ("2005-01-01", 2005),
        ("1963*", 1963),
        ("c1987.", 1987),
        ("01-02-1999", 1999),
        ("19951", 1995),
        ("1890-1995", 1890),
        ("0000", 0),
        ("0195-01", 195),
        ("123 4567", 4567),
        ("no\n2001", 2001),
    ],
)
def test_the_year_is_the_first_four_digits(date: str, year: int) -> None:
    assert rows_for("q1-filter", [changed(publishedDate=date)])[0]["year"] == year
    assert rows_for("q2-decades", [changed(publishedDate=date)])[0]["value"] == str(year // 10)


def test_pitfall_a_comma_in_a_name_makes_no_second_author() -> None:
    row = changed(authors="['Martin Luther King, Jr.', \"Brian O'Leary\"]")
    found = [each["key"] for each in rows_for("q2-decades", [row])]
    assert found == ["Martin Luther King, Jr.", "Brian O'Leary"]
    assert rows_for("q1-filter", [row])[0]["authors"] == [
        "Martin Luther King, Jr.",
        "Brian O'Leary",
    ]


def test_titles_are_compared_exactly() -> None:
    rows = [changed(Title=title) for title in ("Dune", "dune", " Dune", "Dune ")]
    assert [each["key"] for each in rows_for("q3-join", rows)] == ["Dune", "dune", " Dune", "Dune "]


def test_the_first_of_a_title_counts_also_when_only_a_later_one_would_be_wanted() -> None:
    early = changed(publishedDate="1950", categories="['Essays']")
    (joined,) = rows_for("q3-join", [early, DUNE])
    assert (joined["row"], joined["wanted"], joined["authors"]) == (0, False, None)
    (sentiment,) = rows_for("q5-sentiment", [early, DUNE])
    assert (sentiment["row"], sentiment["wanted"]) == (0, False)


def test_a_book_that_takes_no_part_is_not_the_first_of_its_title() -> None:
    (joined,) = rows_for("q3-join", [changed(authors=""), DUNE])
    assert (joined["row"], joined["wanted"]) == (1, True)


def test_q1_and_q2_look_at_every_row_of_a_title() -> None:
    rows = [DUNE, changed(publishedDate="2001"), DUNE]
    assert len(rows_for("q1-filter", rows)) == 3
    assert [each["value"] for each in rows_for("q2-decades", rows)] == ["199", "200"]


def test_a_category_is_held_when_an_element_equals_it() -> None:
    texts = ["['Fiction']", "['A', 'Fiction']", "Fiction", "['Fictions']", "['fiction']"]
    rows = [changed(Title=str(n), categories=text) for n, text in enumerate(texts)]
    wanted = [each["wanted"] for each in rows_for("q5-sentiment", rows)]
    assert wanted == [True, True, True, False, False]


def test_years_are_wanted_with_both_ends() -> None:
    rows = [changed(Title=year, publishedDate=year) for year in ("1989", "1990", "1999", "2000")]
    assert [each["wanted"] for each in rows_for("q3-join", rows)] == [False, True, True, False]


def test_reviews_are_counted_by_title_and_score() -> None:
    found = reviews_of(
        [
            ("Dune", "5.0", "a"),
            ("Dune", " 5.0 ", "b"),
            ("Dune", "", "c"),
            ("dune", "5.0", "d"),
            ("", "5.0", "e"),
        ]
    )
    assert found["q3-join"].frame.rows() == [
        ("Dune", "5.0", 2),
        ("Dune", "", 1),
        ("dune", "5.0", 1),
    ]
    assert found["q3-join"].key == "key"


def test_pitfall_a_score_of_exactly_zero_is_a_score() -> None:
    assert reviews_of([("Dune", "0", "")])["q3-join"].frame.rows() == [("Dune", "0", 1)]


def test_reviews_without_text_are_counted_but_not_judged() -> None:
    found = reviews_of(
        [("Dune", "1", ""), ("Dune", "1", " "), ("Dune", "", "good"), ("", "1", "x")]
    )
    assert found["q5-sentiment"].frame.rows() == [("Dune", " "), ("Dune", "good")]
    assert sum(found["q3-join"].frame["n"]) == 3


def test_no_reviews_make_empty_frames_with_all_columns() -> None:
    full = reviews_of([("Dune", "5", "x")])
    for rows in ([], [("", "5", "x")]):
        for stage, keyed in reviews_of(rows).items():
            assert keyed.frame.height == 0
            assert keyed.frame.schema == full[stage].frame.schema


def test_the_first_of_a_title_counts_in_any_order_of_its_batches() -> None:
    spec = make_spec(params=PARAMS)
    batches = [
        [changed(Title="Other"), changed(authors="['first']")],
        [changed(authors="['second']", publishedDate="1950")],
        [changed(authors="['third']"), changed(Title="Last", authors="['last']")],
    ]
    messages = [
        Message(spec, "gateway/books", Kind.BATCH, seq, "d", body=to_body(frame))
        for seq, frame in enumerate(routed(rows)["q3-join"].frame for rows in batches)
    ]
    popularity = BOOKS.stage["q3-join"].operator
    assert isinstance(popularity, Tally)
    for order in permutations(messages):
        with closing(sqlite3.connect(":memory:")) as db:
            operator = popularity.at(Context(spec, BOOKS, "q3-join", 0), db)
            operator.create()
            for message in order:
                operator.apply(message, operator.prepare(message))
            known = operator._earlier_rows.whole().sort("key")
        assert known.select("key", "batch", "row", "authors").rows() == [
            ("Dune", 0, 1, ["first"]),
            ("Last", 2, 1, ["last"]),
            ("Other", 0, 0, ["Frank Herbert"]),
        ]
