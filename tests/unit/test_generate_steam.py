import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from booksan.errors import UsageError
from booksan.generate import generator
from booksan.generate.steam import GENERATOR
from tests.unit.reading import (
    BOOLEAN,
    NUMBER,
    NUMBERS,
    WHOLE,
    Kinds,
    Row,
    check_dirty,
    digest,
    is_boolean,
    is_whole,
    read_clean,
    read_rows,
)

GAME_COLUMNS = [
    *("AppID", "Name", "Release date", "Estimated owners", "Peak CCU", "Required age", "Price"),
    *("Discount", "DLC count", "About the game", "Supported languages"),
    *("Full audio languages", "Reviews", "Header image", "Website", "Support url"),
    *("Support email", "Windows", "Mac", "Linux", "Metacritic score", "Metacritic url"),
    *("User score", "Positive", "Negative", "Score rank", "Achievements", "Recommendations"),
    *("Notes", "Average playtime forever", "Average playtime two weeks"),
    *("Median playtime forever", "Median playtime two weeks", "Developers", "Publishers"),
    *("Categories", "Genres", "Tags", "Screenshots", "Movies"),
]
REVIEW_COLUMNS = ["app_id", "app_name", "review_text", "review_score", "review_votes"]
GAME_KINDS: Kinds = {
    "AppID": WHOLE,
    "Average playtime forever": NUMBERS,
    **dict.fromkeys(("Windows", "Mac", "Linux"), BOOLEAN),
}
REVIEW_KINDS: Kinds = {"app_id": WHOLE, "review_score": NUMBERS}


class Data(NamedTuple):
    """A clean data set, read back."""

    games: list[Row]
    reviews: list[Row]

    def by_id(self) -> dict[int, Row]:
        first: dict[int, Row] = {}
        for game in self.games:
            if all(game[name] for name in ("AppID", "Name", "Genres", "Release date")):
                first.setdefault(app_id(game["AppID"]), game)
        return first

    def counted(self, sign: int) -> Iterator[tuple[int, str]]:
        """Ids and texts of the reviews that are positive or negative."""
        known = self.by_id()
        for review in self.reviews:
            if all(review[name] for name in ("app_id", "review_text", "review_score")):
                number = app_id(review["app_id"])
                if number in known and float(review["review_score"]) * sign > 0:
                    yield number, review["review_text"]


def app_id(text: str) -> int:
    return int(float(text))


def has(game: Row, genre: str) -> bool:
    return genre in [each.strip().lower() for each in game["Genres"].split(",")]


def read(paths: tuple[Path, Path]) -> Data:
    _, games = read_rows(paths[0])
    return Data([dict(zip(GAME_COLUMNS, row, strict=True)) for row in games], read_clean(paths[1]))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Data:
    made = GENERATOR.generate(
        tmp_path_factory.mktemp("large"), rows=50_000, first_rows=3000, seed=1
    )
    return read(made.paths)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return read(GENERATOR.generate(tmp_path_factory.mktemp("small"), rows=2000, seed=1).paths)


@pytest.mark.parametrize("dirty", [False, True])
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, dirty: bool) -> None:
    first = GENERATOR.generate(tmp_path / "a", rows=1500, seed=5, dirty=dirty)
    again = GENERATOR.generate(tmp_path / "b", rows=1500, seed=5, dirty=dirty)
    other = GENERATOR.generate(tmp_path / "c", rows=1500, seed=6, dirty=dirty)
    assert digest(first) == digest(again)
    for one, two in zip(first.paths, other.paths, strict=True):
        assert one.read_bytes() != two.read_bytes()


def test_the_bytes_are_the_same_on_every_machine_and_version(tmp_path: Path) -> None:
    made = GENERATOR.generate(tmp_path, rows=1500, seed=5, dirty=True)
    assert digest(made) == "45e90abb8e86f634616b1f80b84a2c6883282ee7e2522e32f752cb452a78c74d"


def test_games_have_40_fields_under_39_names_or_40(tmp_path: Path) -> None:
    short = GENERATOR.generate(tmp_path / "39", rows=500, seed=1)
    long = GENERATOR.generate(tmp_path / "40", rows=500, seed=1, header_names=40)
    one, rows = read_rows(short.first.path)
    two, same = read_rows(long.first.path)
    assert one == [*GAME_COLUMNS[:7], "DiscountDLC count", *GAME_COLUMNS[9:]]
    assert (len(one), len(two)) == (39, 40)
    assert two[9:] == GAME_COLUMNS[9:]
    assert rows == same
    assert {len(row) for row in rows} == {40}
    with pytest.raises(UsageError, match="41"):
        GENERATOR.generate(tmp_path, rows=5, seed=1, header_names=41)


@pytest.mark.parametrize(("rows", "games"), [(0, 0), (500, 50), (3000, 100), (66_000, 1001)])
def test_there_are_as_many_games_as_go_with_the_reviews(
    tmp_path: Path, rows: int, games: int
) -> None:
    made = GENERATOR.generate(tmp_path, rows=rows, seed=1)
    assert tuple(path.name for path in made.paths) == GENERATOR.files
    assert [each.rows for each in made.written] == [games, rows]


@pytest.mark.parametrize(("games", "rows"), [(0, 40), (1, 10), (50, 0)])
def test_any_numbers_will_do(tmp_path: Path, games: int, rows: int) -> None:
    made = GENERATOR.generate(tmp_path, rows=rows, first_rows=games, seed=3)
    found = read(made.paths)
    assert (len(found.games), len(found.reviews)) == (games, rows)
    assert rows == 0 or list(found.reviews[0]) == REVIEW_COLUMNS


def test_negative_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="-1"):
        GENERATOR.generate(tmp_path / "none", rows=5, first_rows=-1, seed=1)
    assert not (tmp_path / "none").exists()


# Proportions.


def test_shares_are_those_of_the_public_data(large: Data) -> None:
    games = large.by_id().values()
    for name, share in (("Windows", 0.95), ("Mac", 0.18), ("Linux", 0.126)):
        found = sum(game[name].lower() == "true" for game in games) / len(games)
        assert found == pytest.approx(share, abs=0.03)
    assert sum(has(game, "indie") for game in games) / len(games) == pytest.approx(0.7, abs=0.05)
    assert sum(has(game, "action") for game in games) / len(games) == pytest.approx(0.38, abs=0.05)
    positive, negative = (sum(1 for _ in large.counted(sign)) for sign in (1, -1))
    assert positive / (positive + negative) == pytest.approx(0.8, abs=0.03)


def test_many_reviews_are_very_short_and_some_are_long(large: Data) -> None:
    lengths = sorted(len(review["review_text"]) for review in large.reviews)
    assert lengths[len(lengths) // 5] < 25
    assert 60 < lengths[len(lengths) // 2] < 130
    assert 220 < sum(lengths) / len(lengths) < 330
    assert 5000 < lengths[-1] < 9000


@pytest.mark.parametrize(
    ("script", "share"),
    [("[а-яА-Я]", 0.055), ("[一-龥]", 0.04), ("[ßäöü]| ist | das ", 0.03), ("[ãõ]| é ", 0.03)],
)
def test_texts_are_in_several_languages(large: Data, script: str, share: float) -> None:
    found = sum(bool(re.search(script, review["review_text"])) for review in large.reviews)
    assert found / len(large.reviews) == pytest.approx(share, rel=0.5)


# Warts.


@pytest.mark.parametrize(
    ("column", "pattern"),
    [
        *((name, r"\A\Z") for name in ("AppID", "Name", "Release date", "Genres", "Windows")),
        *((name, r"\A\Z") for name in ("Average playtime forever", "About the game", "Reviews")),
        *(("Genres", pattern) for pattern in (r"\A\w+,\w+\Z", ", ", r"\Aindie\Z", "ACTION", ",,")),
        *(
            ("Release date", pattern)
            for pattern in (r"\A\w{3} \d+, \d{4}\Z", "soon", r"^\w+ \d{4}$")
        ),
        *(("Name", pattern) for pattern in ("[^ -~]", ",", '"')),
        *(("AppID", pattern) for pattern in (r"\.0\Z", r" \Z", r"e0\Z")),
        *(("Windows", pattern) for pattern in ("True", "False", "TRUE", "true")),
        ("About the game", "\n"),
        ("Average playtime forever", r"\A |e3|\."),
    ],
)
def test_warts_of_games_are_there(large: Data, column: str, pattern: str) -> None:
    assert any(re.search(pattern, game[column]) for game in large.games)


@pytest.mark.parametrize(
    ("column", "pattern"),
    [
        *((name, r"\A\Z") for name in REVIEW_COLUMNS[:4]),
        *(
            ("review_text", pattern)
            for pattern in (",", '"', "\n", "♥", "😀|👍", r"\AEarly Access")
        ),
        *(("review_score", pattern) for pattern in (r"\A1\Z", r"\A-1\Z", r"\A \d", r"\A0", r"\+")),
        *(("app_id", pattern) for pattern in (r"\.0\Z", r" \Z", r"e0\Z")),
        ("review_votes", "1"),
    ],
)
def test_warts_of_reviews_are_there(large: Data, column: str, pattern: str) -> None:
    assert any(re.search(pattern, review[column]) for review in large.reviews)


def test_ids_come_twice_and_the_first_may_lack_what_the_second_has(large: Data) -> None:
    counting = large.by_id()
    ids = Counter(app_id(game["AppID"]) for game in large.games if game["AppID"])
    twice = [number for number, count in ids.items() if count > 1]
    assert len(twice) >= 5
    second = [counting[number]["Name"].endswith(" (again)") for number in twice]
    assert True in second
    assert False in second


def test_some_reviews_are_of_no_known_game(large: Data) -> None:
    known = large.by_id()
    unknown = sum(app_id(each["app_id"]) not in known for each in large.reviews if each["app_id"])
    assert 0.01 < unknown / len(large.reviews) < 0.04


def test_every_value_that_is_there_can_be_read(large: Data) -> None:
    for game in large.games:
        assert not game["AppID"] or is_whole(game["AppID"])
        assert not game["Windows"] or is_boolean(game["Windows"])
        playtime = game["Average playtime forever"]
        assert not playtime or NUMBER.fullmatch(playtime)
    for review in large.reviews:
        assert not review["app_id"] or is_whole(review["app_id"])
        assert not review["review_score"] or NUMBER.fullmatch(review["review_score"])


# Every query has something to find.


def indie_of_the_decade(data: Data) -> int:
    played = [
        game for game in data.by_id().values()
        if has(game, "indie") and float(game["Average playtime forever"] or 0) > 0
    ]  # fmt: skip
    years = [re.search("[0-9]{4}", game["Release date"]) for game in played]
    return sum(year is not None and 2010 <= int(year[0]) <= 2019 for year in years)


def most_reviewed(data: Data, genre: str, sign: int) -> Counter[int]:
    known = data.by_id()
    counts = Counter(number for number, _ in data.counted(sign))
    return Counter({each: n for each, n in counts.items() if has(known[each], genre)})


def test_every_query_has_something_to_find(large: Data) -> None:
    assert indie_of_the_decade(large) > 20
    assert len(most_reviewed(large, "indie", 1)) > 100
    negative = most_reviewed(large, "action", -1)
    assert len(negative) > 100
    english = Counter(
        number for number, text in large.counted(-1) if number in negative and text.isascii()
    )
    # With 300,000 reviews it is six times as many, and more than 5,000.
    assert english.most_common(1)[0][1] > 1000
    # A game that has as many negative reviews, but not in English.
    assert any(count < 0.5 * negative[number] > 300 for number, count in english.items())


def test_small_data_is_varied_enough(small: Data) -> None:
    assert len(small.games) == 100
    assert indie_of_the_decade(small) >= 3
    assert len(most_reviewed(small, "indie", 1)) >= 15
    assert most_reviewed(small, "action", -1).most_common(1)[0][1] > 20


# Dirty files.


@pytest.mark.parametrize(("seed", "rows"), [(4, 2000), (1, 400), (2, 90)])
def test_a_dirty_file_holds_the_clean_rows_and_the_named_bad_ones(
    tmp_path: Path, seed: int, rows: int
) -> None:
    clean = GENERATOR.generate(tmp_path / "clean", rows=rows, first_rows=rows // 2, seed=seed)
    dirty = GENERATOR.generate(
        tmp_path / "dirty", rows=rows, first_rows=rows // 2, seed=seed, dirty=True
    )
    check_dirty(clean.first, dirty.first, GAME_KINDS, header=GAME_COLUMNS)
    check_dirty(clean.second, dirty.second, REVIEW_KINDS)
    if rows >= 2000:
        both = {
            generator.TOO_FEW,
            generator.TOO_MANY,
            generator.AFTER_QUOTE,
            generator.NOT_UTF8,
            generator.NUL,
        }
        both |= {generator.NOT_A_NUMBER, generator.NOT_WHOLE, generator.UNTERMINATED}
        assert set(dirty.first.bad) == both | {generator.NO_BOOLEAN}
        assert set(dirty.second.bad) == both | {generator.TOO_LONG}
