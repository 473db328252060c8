import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from textblob import TextBlob

from booksan.errors import UsageError
from booksan.generate import books, catalogue, generator
from booksan.generate.books import generate_books
from booksan.generate.generator import Chance
from booksan.generate.words import Titles
from tests.unit.reading import NUMBERS, Row, check_dirty, digest, read_clean, read_dirty, rejected

SCORES = {"review/score": NUMBERS}
BOOK_COLUMNS = [
    *("Title", "description", "authors", "image", "previewLink", "publisher", "publishedDate"),
    *("infoLink", "categories", "ratingsCount"),
]
REVIEW_COLUMNS = [
    *("Id", "Title", "Price", "User_id", "profileName", "review/helpfulness", "review/score"),
    *("review/time", "review/summary", "review/text"),
]


class Data(NamedTuple):
    """A clean data set, read back."""

    books: list[Row]
    reviews: list[Row]

    def taking_part(self) -> Iterator[Row]:
        for book in self.books:
            if (
                book["Title"]
                and names(book["authors"])
                and names(book["categories"])
                and year(book)
            ):
                yield book

    def by_title(self) -> dict[str, Row]:
        first: dict[str, Row] = {}
        for book in self.taking_part():
            first.setdefault(book["Title"], book)
        return first


@cache
def names(value: str) -> list[str]:
    try:
        found = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        found = [value]
    return [name for name in found if name]


def year(book: Row) -> int | None:
    match = re.search("[0-9]{4}", book["publishedDate"])
    return int(match[0]) if match else None


def is_fiction(book: Row) -> bool:
    return "Fiction" in names(book["categories"])


def generated(out: Path, books: int, reviews: int, seed: int = 1) -> Data:
    made = generate_books(out, books=books, reviews=reviews, seed=seed)
    return Data(read_clean(made.books.path), read_clean(made.reviews.path))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return generated(tmp_path_factory.mktemp("large"), 10_000, 100_000)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return generated(tmp_path_factory.mktemp("small"), 200, 1000)


# The same arguments give the same bytes.


@pytest.mark.parametrize("dirty", [False, True])
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, dirty: bool) -> None:
    first = generate_books(tmp_path / "a", books=300, reviews=1500, seed=5, dirty=dirty)
    again = generate_books(tmp_path / "b", books=300, reviews=1500, seed=5, dirty=dirty)
    other = generate_books(tmp_path / "c", books=300, reviews=1500, seed=6, dirty=dirty)
    assert digest(first) == digest(again)
    for one, two in zip(first.paths, other.paths, strict=True):
        assert one.read_bytes() != two.read_bytes()


def test_the_bytes_are_the_same_on_every_machine_and_version(tmp_path: Path) -> None:
    made = generate_books(tmp_path, books=300, reviews=1500, seed=5, dirty=True)
    assert digest(made) == "d7be00efa48fc6457379d318f9d80da18d91e9ec02181de33b5742717b6b0589"


# Shape and size.


def test_files_have_the_columns_of_the_public_ones(large: Data) -> None:
    assert list(large.books[0]) == BOOK_COLUMNS == list(catalogue.COLUMNS)
    assert list(large.reviews[0]) == REVIEW_COLUMNS == list(books.COLUMNS)
    assert (len(large.books), len(large.reviews)) == (10_000, 100_000)


@pytest.mark.parametrize(("books", "reviews"), [(0, 0), (0, 50), (1, 10), (7, 0), (13, 101)])
def test_any_numbers_will_do(tmp_path: Path, books: int, reviews: int) -> None:
    made = generate_books(tmp_path, books=books, reviews=reviews, seed=3)
    assert [len(read_clean(path)) for path in made.paths] == [books, reviews]
    assert (made.books.rows, made.reviews.rows, made.rows) == (books, reviews, books + reviews)
    assert made.bytes == sum(path.stat().st_size for path in made.paths)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "Books_rating.csv",
        "books_data.csv",
    ]


def test_negative_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        generate_books(tmp_path, books=-1, reviews=5, seed=1)
    assert list(tmp_path.iterdir()) == []


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    before = generate_books(tmp_path, books=50, reviews=100, seed=1)
    old = digest(before)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate_books(tmp_path, books=3000, reviews=100, seed=2, progress=interrupt)
    assert digest(before) == old
    assert len(list(tmp_path.iterdir())) == 2


def test_who_reads_the_old_file_is_not_disturbed_by_a_new_one(tmp_path: Path) -> None:
    old = generate_books(tmp_path, books=50, reviews=100, seed=1).reviews
    content = old.path.read_bytes()
    with old.path.open("rb") as file:
        generate_books(tmp_path, books=50, reviews=100, seed=2)
        assert file.read() == content
    assert old.path.read_bytes() != content


def test_progress_adds_up_to_all_rows(tmp_path: Path) -> None:
    told: list[int] = []
    made = generate_books(tmp_path, books=1500, reviews=2500, seed=1, progress=told.append)
    assert sum(told) == made.rows
    assert len(told) > 3


def test_titles_are_different_until_one_is_repeated_on_purpose() -> None:
    titles = Titles(Chance(1, "titles"))
    assert len({titles.next() for _ in range(200_000)}) == 200_000


# Proportions.


@pytest.mark.parametrize(("books", "reviews", "seed"), [(2000, 20_000, 2), (50, 20_000, 3)])
def test_a_quarter_of_the_reviews_are_of_fiction(
    tmp_path: Path, books: int, reviews: int, seed: int
) -> None:
    assert fiction_share(generated(tmp_path, books, reviews, seed)) == pytest.approx(0.26, abs=0.01)


def fiction_share(data: Data) -> float:
    fiction = {title for title, book in data.by_title().items() if is_fiction(book)}
    return sum(review["Title"] in fiction for review in data.reviews) / len(data.reviews)


def test_shares_are_those_of_the_public_data(large: Data) -> None:
    assert fiction_share(large) == pytest.approx(0.26, abs=0.005)
    scores = [float(review["review/score"]) for review in large.reviews if review["review/score"]]
    assert sum(scores) / len(scores) == pytest.approx(4.2, abs=0.1)
    assert set(scores) == {1.0, 2.0, 3.0, 4.0, 5.0}
    lengths = sorted(len(review["review/text"].encode()) for review in large.reviews)
    assert 680 < sum(lengths) / len(lengths) < 820
    assert lengths[50_000] < 0.7 * sum(lengths) / len(lengths)
    assert 15_000 < lengths[-1] < 31_000
    reviewed = Counter(review["Title"] for review in large.reviews).most_common()
    assert reviewed[0][1] > 20 * reviewed[1000][1] > 0


def test_texts_are_as_positive_and_as_rich_in_known_words_as_real_ones(large: Data) -> None:
    texts = [review["review/text"] for review in large.reviews[::400] if review["review/text"]]
    found = [TextBlob(text).sentiment_assessments for text in texts]
    polarities = [each.polarity for each in found]
    known = sum(len(each.assessments) for each in found)
    assert 0.15 < sum(polarities) / len(texts) < 0.3
    assert 0.05 < sum(polarity < 0 for polarity in polarities) / len(texts) < 0.2
    assert 0.07 < known / sum(len(text.split()) for text in texts) < 0.13
    assert len({word for text in texts for word in text.split()}) > 1000


# Warts.


def some(column: str, pattern: str) -> Callable[[list[Row]], bool]:
    return lambda rows: any(re.search(pattern, row[column]) for row in rows)


BOOK_WARTS = {
    **{f"no {column}": some(column, r"\A\Z") for column in BOOK_COLUMNS},
    **{f"date {date}": some("publishedDate", rf"\A{re.escape(date)}\Z") for date in
       ("1963*", "19??", "n.d.")},
    "a year": some("publishedDate", r"\A\d{4}\Z"),
    "a month": some("publishedDate", r"\A\d{4}-\d\d\Z"),
    "a day": some("publishedDate", r"\A\d{4}-\d\d-\d\d\Z"),
    "before 1900": some("publishedDate", r"\A1[5-8]\d\d"),
    "a comma in a name": some("authors", r"'[^',]+, Jr\.'"),
    "an apostrophe in a name": some("authors", r'"[^"]+ O\'[^"]+"'),
    "both quotes in a name": some("authors", r"\"[^']*\\'"),
    "several authors": some("authors", r"', '"),
    "an empty list": some("authors", r"\A\[\]\Z"),
    "a plain name": some("authors", r"\A[^\[]"),
    "an empty name": some("authors", r"\[''"),
    "a name that is not ASCII": some("authors", r"[^\x00-\x7f]"),
    "a comma in a category": some("categories", r"'Body, Mind & Spirit'"),
    "an apostrophe in a category": some("categories", r'"Children\'s stories"'),
    "two categories": some("categories", r"'Fiction', '"),
    "a category almost Fiction": some("categories", r"'Juvenile Fiction'"),
    "a quote in a title": some("Title", '"'),
    "a comma in a title": some("Title", ","),
    "a title that is not ASCII": some("Title", r"[^\x00-\x7f]"),
    "a line break in a description": some("description", "\n"),
}  # fmt: skip
REVIEW_WARTS = {
    **{f"no {column}": some(column, r"\A\Z") for column in
       ("Title", "Price", "User_id", "profileName", "review/score", "review/summary",
        "review/text")},
    "quotes": some("review/text", '"'),
    "commas": some("review/text", ","),
    "entities": some("review/text", "&quot;"),
    "line breaks": some("review/text", "\n"),
    "no blank after a full stop": some("review/text", r"[.!][A-Z]"),
    "emoji": some("review/text", "😀"),
    "Cyrillic": some("review/text", "[а-я]{4}"),
    "Chinese": some("review/text", "这本书"),
    "emoticons": some("review/text", r":-?\)"),
    "negations": some("review/text", r" not |n't "),
    "very long texts": some("review/text", r"(?s)\A.{15000}"),
    "very short texts": some("review/text", r"\A.{1,8}\Z"),
    "nicknames": some("profileName", r' "\w+"'),
    "an X in the Id": some("Id", r"\A\d{9}X\Z"),
    "no ISBN": some("Id", r"\AB000"),
    "helpfulness": some("review/helpfulness", r"\A\d+/\d+\Z"),
}  # fmt: skip


@pytest.mark.parametrize("wart", BOOK_WARTS)
def test_books_have_every_wart_of_the_public_data(large: Data, wart: str) -> None:
    assert BOOK_WARTS[wart](large.books)


@pytest.mark.parametrize("wart", REVIEW_WARTS)
def test_reviews_have_every_wart_of_the_public_data(large: Data, wart: str) -> None:
    assert REVIEW_WARTS[wart](large.reviews)


def test_titles_do_not_always_join(large: Data) -> None:
    books = Counter(book["Title"] for book in large.books if book["Title"])
    reviewed = {review["Title"] for review in large.reviews}
    part = large.by_title()
    assert any(title not in reviewed for title in part)
    assert any(title and title not in books for title in reviewed)
    assert any(title in books and title not in part for title in reviewed)
    assert any(title not in books and title.strip() in books for title in reviewed)


def test_the_first_of_several_books_with_a_title_makes_a_difference(large: Data) -> None:
    editions: dict[str, list[Row]] = defaultdict(list)
    for book in large.books:
        editions[book["Title"]].append(book)
    part = large.by_title()
    again = [(part[title], rows) for title, rows in editions.items() if title in part and rows[1:]]
    assert any(first is not rows[0] for first, rows in again)
    assert any(is_fiction(first) != is_fiction(rows[-1]) for first, rows in again)
    assert any((year(first) or 0) // 10 != (year(rows[-1]) or 0) // 10 for first, rows in again)


# Every query has something to find.


def q1(data: Data) -> list[Row]:
    about = [book for book in data.taking_part() if "distributed" in book["Title"].lower()]
    computers = [book for book in about if "Computers" in names(book["categories"])]
    found = [book for book in computers if 2000 <= (year(book) or 0) <= 2023]
    assert len(found) < len(computers) < len(about)
    return found


def decades(data: Data) -> Counter[str]:
    pairs = {
        (name, (year(book) or 0) // 10)
        for book in data.taking_part()
        for name in names(book["authors"])
    }
    return Counter(name for name, _ in pairs)


def q3(data: Data, least: int) -> Counter[str]:
    nineties = {title for title, book in data.by_title().items() if (year(book) or 0) // 10 == 199}
    counts = Counter(review["Title"] for review in data.reviews if review["Title"] in nineties)
    return Counter({title: count for title, count in counts.items() if count >= least})


def fiction_with_text(data: Data) -> set[str]:
    fiction = {title for title, book in data.by_title().items() if is_fiction(book)}
    texts = (review["Title"] for review in data.reviews if review["review/text"])
    return fiction.intersection(texts)


def test_every_query_hits_with_its_defaults(large: Data) -> None:
    assert len(q1(large)) >= 5
    spans = decades(large)
    assert sum(span >= 10 for span in spans.values()) >= 3
    assert any(span >= 10 and "," in name for name, span in spans.items())
    assert 9 in spans.values()
    assert len(q3(large, 500)) >= 12
    # One in ten of these is at or above the 90th percentile.
    assert len(fiction_with_text(large)) >= 240


@pytest.mark.parametrize("seed", [11])
def test_other_seeds_hit_as_well(tmp_path: Path, seed: int) -> None:
    data = generated(tmp_path, 10_000, 20_000, seed)
    assert len(q1(data)) >= 5
    assert sum(span >= 10 for span in decades(data).values()) >= 3
    assert len(q3(data, 100)) >= 12


def test_small_data_is_varied_enough_for_small_thresholds(small: Data) -> None:
    assert len(q1(small)) >= 5
    assert sum(span >= 5 for span in decades(small).values()) >= 3
    assert len(q3(small, 5)) >= 10
    assert len(fiction_with_text(small)) >= 15
    assert len({review["review/score"] for review in small.reviews}) >= 5


def test_mean_scores_of_often_reviewed_books_differ(large: Data) -> None:
    scores: dict[str, list[float]] = {title: [] for title in q3(large, 500)}
    for review in large.reviews:
        if review["Title"] in scores and review["review/score"]:
            scores[review["Title"]].append(float(review["review/score"]))
    means = [sum(each) / len(each) for each in scores.values()]
    assert max(means) - min(means) > 0.5


# Dirty files.


def test_a_dirty_file_holds_the_clean_rows_and_the_named_bad_ones(tmp_path: Path) -> None:
    clean = generate_books(tmp_path / "clean", books=1000, reviews=5000, seed=4)
    dirty = generate_books(tmp_path / "dirty", books=1000, reviews=5000, seed=4, dirty=True)
    check_dirty(clean.books, dirty.books)
    check_dirty(clean.reviews, dirty.reviews, SCORES)
    both = {
        generator.TOO_FEW,
        generator.TOO_MANY,
        generator.AFTER_QUOTE,
        generator.NOT_UTF8,
        generator.NUL,
    }
    assert set(dirty.books.bad) == both | {generator.UNTERMINATED}
    assert set(dirty.reviews.bad) == both | {
        generator.NOT_A_NUMBER,
        generator.TOO_LONG,
        generator.UNTERMINATED,
    }
    assert 45 <= sum(map(len, dirty.reviews.bad.values())) <= 60
    assert dirty.reviews.bad[generator.UNTERMINATED] == [dirty.reviews.rows]
    assert len(dirty.reviews.bad[generator.TOO_LONG]) == 1


@pytest.mark.parametrize("seed", range(3))
def test_small_dirty_files_hold_the_clean_rows_too(tmp_path: Path, seed: int) -> None:
    clean = generate_books(tmp_path / "clean", books=40, reviews=220, seed=seed)
    dirty = generate_books(tmp_path / "dirty", books=40, reviews=220, seed=seed, dirty=True)
    check_dirty(clean.books, dirty.books)
    check_dirty(clean.reviews, dirty.reviews, SCORES)


def test_a_bad_record_is_one_record_although_its_row_has_line_breaks(tmp_path: Path) -> None:
    rows = [["7", 'a "b"', "4.0", 'one\ntwo,"three"\n']] * 900
    stain = generator.Dirt(Chance(1, "dirt"), text=3, number=2)
    path = tmp_path / "dirty.csv"
    path.write_bytes(b"id,name,score,text\n" + b"".join(stain.records(rows, len(rows))))
    records = read_dirty(path, {"score": NUMBERS})
    assert rejected(records) == stain.bad
    assert [record.fields for record in records if record.fields] == rows


def test_the_last_row_of_a_small_dirty_file_may_be_bad(tmp_path: Path) -> None:
    made = [
        generate_books(tmp_path, books=5, reviews=150, seed=seed, dirty=True).reviews
        for seed in range(5)
    ]
    last = [any(each.rows in rows for rows in each.bad.values()) for each in made]
    assert True in last
    assert False in last


def test_a_dirty_file_has_odd_line_ends_and_blank_lines(tmp_path: Path) -> None:
    made = generate_books(tmp_path, books=10, reviews=3000, seed=4, dirty=True)
    content = made.reviews.path.read_bytes()
    assert b"\r\n" in content
    assert re.search(rb"\n\r?\n", content)
    assert re.search(rb"\r[^\n]", content)


def test_a_lone_carriage_return_does_not_change_the_polarity(tmp_path: Path) -> None:
    texts = [row["review/text"] for row in generated(tmp_path, 20, 150).reviews]
    for text in texts:
        changed = text.replace(" ", "\r", 1)
        assert TextBlob(changed).sentiment.polarity == TextBlob(text).sentiment.polarity


def test_no_books_and_no_reviews_have_no_bad_rows(tmp_path: Path) -> None:
    made = generate_books(tmp_path, books=0, reviews=0, seed=1, dirty=True)
    assert made.rows == 0
    assert not any((*made.books.bad.values(), *made.reviews.bad.values()))
