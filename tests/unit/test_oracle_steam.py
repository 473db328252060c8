"""The answers of steam, worked out by hand."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from tests.oracle import steam as oracle
from tests.support.oracle_rows import Asked, real_sample, written
from tests.support.real_rows import NO_REAL_ROWS

GAMES = "AppID,Name,Release date,Genres,Average playtime forever,Windows,Mac,Linux"
REVIEWS = "app_id,review_text,review_score"
#: Platforms that no other query looks at.
NONE = "False,False,False"


def is_english(text: str) -> bool:
    """A detector that needs no guessing."""
    return text.startswith("english")


def answers(games: Path, reviews: Path, params: Mapping[str, object]) -> dict[str, bytes]:
    return oracle.answers(games, reviews, params, is_english=is_english)


@pytest.fixture
def answer(tmp_path: Path) -> Asked:
    return Asked(tmp_path, (GAMES, REVIEWS), answers)


def test_every_answer_has_its_header_line_also_when_it_is_empty(tmp_path: Path) -> None:
    games = written(tmp_path / "games.csv", GAMES, [])
    reviews = written(tmp_path / "reviews.csv", REVIEWS, [])
    assert answers(games, reviews, {}) == {
        "q1": b"platform,games\nLinux,0\nMac,0\nWindows,0\n",
        "q2": b"rank,app_id,name,average_playtime\n",
        "q3": b"rank,app_id,name,reviews\n",
        "q4": b"app_id,name,reviews\n",
        "q5": b"app_id,name,reviews\n",
    }


def test_bad_fields_of_games_are_rejected_and_lacking_ones_are_not(tmp_path: Path) -> None:
    games = [
        "1,a,2010,Indie,0,True,False,true",
        ",,,,,,,",
        "x,c,2010,Indie,0,True,False,False",
        "1.5,d,2010,Indie,0,True,False,False",
        "9223372036854775808,e,2010,Indie,0,True,False,False",
        "6,f,2010,Indie,long,True,False,False",
        "7,g,2010,Indie,0,yes,False,False",
        "8,h,2010,Indie,0,True,0,False",
        "9,i,2010,Indie,0,True,False, False",
        "10,j,2010,Indie,0,True,False",
        " 1.1e1 ,k,2010,Indie, 0.5 ,TRUE,fALSE,",
    ]
    path = written(tmp_path / "games.csv", GAMES, games)
    assert oracle.rejected(path, "games") == [3, 4, 5, 6, 7, 8, 9, 10]


def test_bad_fields_of_reviews_are_rejected_and_lacking_ones_are_not(tmp_path: Path) -> None:
    reviews = ["1,t,1", ",,", "one,t,1", "0.5,t,1", "1,t,good", "1,t", "1.0,t,-1e0"]
    path = written(tmp_path / "reviews.csv", REVIEWS, reviews)
    assert oracle.rejected(path, "reviews") == [3, 4, 5, 6]


PUBLIC = (
    "AppID,Name,Release date,Estimated owners,Peak CCU,Required age,Price,DiscountDLC count,"
    "About the game,Supported languages,Full audio languages,Reviews,Header image,Website,"
    "Support url,Support email,Windows,Mac,Linux,Metacritic score,Metacritic url,User score,"
    "Positive,Negative,Score rank,Achievements,Recommendations,Notes,Average playtime forever,"
    "Average playtime two weeks,Median playtime forever,Median playtime two weeks,Developers,"
    "Publishers,Categories,Genres,Tags,Screenshots,Movies"
)
#: Forty fields, under the names of the header when DiscountDLC count is two.
PUBLIC_ROW = (
    '7,Seven,"Oct 21, 2011",0,0,0,19.99,0,5,about,[],[],,,,,,True,False,True,0,,0,1,2,,0,0,,'
    '33,44,55,66,dev,pub,"a,b","Casual,Indie",tags,shots,movies'
)


@pytest.mark.parametrize(
    "header",
    [PUBLIC, PUBLIC.replace("DiscountDLC count", "Discount,DLC count")],
    ids=["39 names over 40 fields", "40 names"],
)
def test_both_headers_of_games_are_read(tmp_path: Path, header: str) -> None:
    games = written(tmp_path / "games.csv", header, [PUBLIC_ROW, "8,x"])
    reviews = written(tmp_path / "reviews.csv", REVIEWS, [])
    found = answers(games, reviews, {})
    assert found["q1"] == b"platform,games\nLinux,1\nMac,0\nWindows,1\n"
    assert found["q2"] == b"rank,app_id,name,average_playtime\n1,7,Seven,33\n"
    assert oracle.rejected(games, "games") == [2]


def test_a_header_of_as_many_names_as_fields_is_left_alone(tmp_path: Path) -> None:
    header = PUBLIC.replace("DiscountDLC count", "Unknown,DiscountDLC count")
    games = written(tmp_path / "games.csv", header, [PUBLIC_ROW])
    reviews = written(tmp_path / "reviews.csv", REVIEWS, [])
    assert answers(games, reviews, {})["q2"].endswith(b"\n1,7,Seven,33\n")


# Which games and reviews take part


def test_games_that_lack_what_all_queries_need_take_no_part(answer: Asked) -> None:
    games = [
        ",a,2010,Indie,0,True,True,True",
        "1,,2010,Indie,0,True,True,True",
        "2,b,,Indie,0,True,True,True",
        "3,c,2010,,0,True,True,True",
        "4,d,2010,Indie,bad,True,True,True",
        "5,e,soon,Indie,,True,True,False",
    ]
    assert answer("q1", games) == "Linux,0\nMac,1\nWindows,1\n"


def test_the_first_game_of_an_id_that_takes_part_counts(answer: Asked) -> None:
    games = [
        f"10,no genre,2010,,1,{NONE}",
        f"10,rejected,2010,Indie,x,{NONE}",
        f"10.0,first,2010,Indie,1,{NONE}",
        f"1e1,second,2010,Indie,2,{NONE}",
        f"11,other genre,2010,Action,3,{NONE}",
        f"11,later,2010,Indie,4,{NONE}",
    ]
    assert answer("q2", games) == "1,10,first,1\n"


ONE = [f'1,one,2010,"Indie,Action",1,{NONE}']


def test_reviews_that_lack_something_or_whose_game_is_unknown_take_no_part(answer: Asked) -> None:
    reviews = ["1,t,1", "1.0, ,1", ",t,1", "1,,1", "1,t,", "2,t,1", "1,t,bad"]
    assert answer("q3", ONE, reviews) == "1,1,one,2\n"


def test_a_score_of_nothing_is_neither_positive_nor_negative(answer: Asked) -> None:
    reviews = ["1,t,0", "1,t,-0.0", "1,t,1e-400", "1,t,-.1", "1,t,-1"]
    assert answer("q3", ONE, reviews) == "1,1,one,1\n"
    assert answer("q5", ONE, reviews) == "1,one,2\n"


@pytest.mark.parametrize(
    ("genres", "is_indie"),
    [
        ("Indie", True),
        ("Casual, INDIE ,Action", True),
        ("indie\t", True),
        ("Indie Game", False),
        ("Indie;Casual", False),
        ("Casual", False),
        (",", False),
    ],
)
def test_one_element_of_the_genres_must_be_equal(
    answer: Asked, genres: str, is_indie: bool
) -> None:
    games = [f'1,one,2010,"{genres}",1,{NONE}']
    assert answer("q2", games) == ("1,1,one,1\n" if is_indie else "")
    assert answer("q2", games, q2_genre=" inDie ") == ("1,1,one,1\n" if is_indie else "")
    assert answer("q3", games, ["1,t,1"]) == ("1,1,one,1\n" if is_indie else "")
    assert answer("q4", games, ["1,english,-1"], q4_reviews=0, q4_genre="INDIE") == (
        "1,one,1\n" if is_indie else ""
    )
    assert answer("q5", games, ["1,t,-1"], q5_genre="indie") == ("1,one,1\n" if is_indie else "")


# q1


def test_q1_counts_the_games_of_each_platform(answer: Asked) -> None:
    games = [
        "1,a,2010,x,0,True,False,False",
        "2,a,2010,x,0,TRUE,true,False",
        "2,a,2010,x,0,True,True,True",
        "3,a,2010,x,,True,True,True",
        "4,a,2010,x,,False,False,False",
    ]
    assert answer("q1", games) == "Linux,1\nMac,2\nWindows,3\n"


def test_q1_counts_a_platform_that_a_game_has_though_another_is_lacking(answer: Asked) -> None:
    games = ["1,a,2010,x,0,True,,False", "2,a,2010,x,0,True,True,", "3,a,2010,x,0,True,True,True"]
    assert answer("q1", games) == "Linux,1\nMac,2\nWindows,3\n"


# q2


def test_q2_ranks_by_playtime_by_value_then_name_then_id(answer: Asked) -> None:
    games = [
        f"1,a,2010,Indie,9.50,{NONE}",
        f"2,b,2010,Indie,10,{NONE}",
        f"3,a,2010,Indie,10.0,{NONE}",
        f"20,a,2010,Indie,9.5,{NONE}",
        f"3e0,a,2010,Indie,99,{NONE}",
        f"4,B,2010,Indie, 9.5 ,{NONE}",
        f"5,z,2010,Indie,1e3,{NONE}",
    ]
    expected = "1,5,z,1e3\n2,3,a,10.0\n3,2,b,10\n4,4,B, 9.5 \n5,1,a,9.50\n6,20,a,9.5\n"
    assert answer("q2", games) == expected
    assert answer("q2", games, q2_top=1) == "1,5,z,1e3\n"


def test_q2_compares_playtimes_exactly(answer: Asked) -> None:
    more = "0.10000000000000000001"
    games = [f"1,a,2010,Indie,0.1,{NONE}", f"2,b,2010,Indie,{more},{NONE}"]
    assert answer("q2", games) == f"1,2,b,{more}\n2,1,a,0.1\n"


def test_q2_sorts_ids_as_numbers(answer: Asked) -> None:
    games = [f"{app_id},a,2010,Indie,1,{NONE}" for app_id in (10, 9, -1)]
    assert answer("q2", games) == "1,-1,a,1\n2,9,a,1\n3,10,a,1\n"


def test_q2_takes_the_years_and_ten_games(answer: Asked) -> None:
    dates = ['"Oct 21, 2009"', "2010", '"Dec 31, 2019"', "2020", "soon", "201", "20191"]
    games = [f"{n},{n},{date},Indie,1,{NONE}" for n, date in enumerate(dates)]
    assert answer("q2", games) == "1,1,1,1\n2,2,2,1\n3,6,6,1\n"
    assert answer("q2", games, q2_from_year=2020, q2_to_year=2020) == "1,3,3,1\n"
    many = [f"{n},{n:02},2015,Indie,{n},{NONE}" for n in range(12)]
    ranked = answer("q2", many).splitlines()
    assert (len(ranked), ranked[0], ranked[-1]) == (10, "1,11,11,11", "10,2,02,2")


def test_q2_skips_games_without_playtime_but_not_those_of_nothing(answer: Asked) -> None:
    games = [f"1,a,2010,Indie,,{NONE}", f"2,b,2010,Indie,0,{NONE}", "3,c,2010,Indie,0,,,"]
    assert answer("q2", games) == "1,2,b,0\n2,3,c,0\n"


# q3


def test_q3_ranks_by_positive_reviews_then_name_then_id(answer: Asked) -> None:
    games = [f"{app_id},{name},2010,Indie,,{NONE}" for app_id, name in [(10, "a"), (9, "a")]]
    games += [f"1,b,soon,Indie,,{NONE}", f"2,c,2010,Indie,,{NONE}", f"3,d,2010,Action,,{NONE}"]
    reviews = [*["2,t,1"] * 2, *["10,t,1"] * 2, *["9,t,1"] * 2, *["1,t,1"] * 3, *["3,t,1"] * 9]
    reviews += ["9,t,0", "2,t,-1", "4,t,1"]
    assert answer("q3", games, reviews) == "1,1,b,3\n2,9,a,2\n3,10,a,2\n4,2,c,2\n"
    assert answer("q3", games, reviews, q3_top=2) == "1,1,b,3\n2,9,a,2\n"
    assert answer("q3", games, reviews, q3_genre="Action") == "1,3,d,9\n"


def test_q3_leaves_out_games_without_positive_reviews(answer: Asked) -> None:
    assert answer("q3", ONE, ["1,t,-1", "1,t,0"]) == ""


def test_q3_gives_five_when_not_told_otherwise(answer: Asked) -> None:
    games = [f"{n},{n},2010,Indie,,{NONE}" for n in range(7)]
    reviews = [f"{n},t,1" for n in range(7)]
    assert answer("q3", games, reviews) == "".join(f"{n + 1},{n},{n},1\n" for n in range(5))


# q4


def test_q4_takes_games_with_more_negative_reviews_in_english(answer: Asked) -> None:
    games = [
        f"{app_id},{name},2010,Action,,{NONE}" for app_id, name in [(1, "b"), (2, "a"), (3, "c")]
    ]
    games += [f"10,a,2010,Action,,{NONE}", f"4,d,2010,Indie,,{NONE}"]
    english = "english,-1"
    reviews = [*[f"1,{english}"] * 3, *[f"2,{english}"] * 3, *[f"10,{english}"] * 4]
    reviews += [*[f"3,{english}"] * 2, "3,deutsch,-1", "3,english,1", "3,english,0"]
    reviews += [f"4,{english}"] * 9 + ["1,deutsch,-1"] * 9
    assert answer("q4", games, reviews, q4_reviews=2) == "2,a,3\n10,a,4\n1,b,3\n"
    assert answer("q4", games, reviews, q4_reviews=3) == "10,a,4\n"
    assert answer("q4", games, reviews, q4_reviews=2, q4_genre="Indie") == "4,d,9\n"


def test_q4_wants_more_than_5000_when_not_told_otherwise(answer: Asked) -> None:
    games = [f"{n},{n},2010,Action,,{NONE}" for n in (1, 2)]
    reviews = ["1,english,-1"] * 5000 + ["2,english,-1"] * 5001 + ["1,deutsch,-1"] * 9
    assert answer("q4", games, reviews) == "2,2,5001\n"


# q5


def test_q5_keeps_the_numbers_at_or_above_the_percentile(answer: Asked) -> None:
    games = [f"{n},{name},2010,Action,,{NONE}" for n, name in enumerate("edcba")]
    games += [f"9,none,2010,Action,,{NONE}", f"8,indie,2010,Indie,,{NONE}"]
    # The numbers are 1, 2, 3, 4: the game with 0 does not count.
    reviews = [f"{n},deutsch,-1" for n in range(5) for _ in range(n)] + ["9,t,1"]
    reviews += ["8,t,-1"] * 99
    # The cut is at place 0.9 * 3 = 2.7 of 1, 2, 3, 4, which is 3.7.
    assert answer("q5", games, reviews) == "4,a,4\n"
    # At place 1.5 it is 2.5.
    assert answer("q5", games, reviews, q5_percentile=50) == "4,a,4\n3,b,3\n"
    assert answer("q5", games, reviews, q5_percentile=0) == "4,a,4\n3,b,3\n2,c,2\n1,d,1\n"
    assert answer("q5", games, reviews, q5_genre="Indie") == "8,indie,99\n"


def test_q5_keeps_a_number_that_is_the_cut_itself(answer: Asked) -> None:
    games = [f"{n},same,2010,Action,,{NONE}" for n in (10, 9, 1)]
    reviews = ["10,t,-1", "9,t,-1", "9,t,-1", *["1,t,-1"] * 3]
    # The cut is the one in the middle of 1, 2, 3.
    assert answer("q5", games, reviews, q5_percentile=50) == "1,same,3\n9,same,2\n"


def test_q5_has_no_rows_without_negative_reviews(answer: Asked) -> None:
    assert answer("q5", ONE, ["1,t,1"]) == ""


# All


def test_a_parameter_that_no_query_has_is_refused(answer: Asked) -> None:
    with pytest.raises(ValueError, match=r"q1\.genre"):
        answer("q1", q1_genre="x")


def test_the_command_line_writes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    language = ModuleType("booksan.language")
    monkeypatch.setattr(language, "is_english", is_english, raising=False)
    monkeypatch.setitem(sys.modules, "booksan.language", language)
    games = written(tmp_path / "games.csv", GAMES, ONE)
    reviews = written(tmp_path / "reviews.csv", REVIEWS, ["1,english,-1", "1,deutsch,-1"])
    out = tmp_path / "new" / "out"
    oracle.main([str(games), str(reviews), str(out), "--set", "q4.reviews=0"])
    found = {path.stem: path.read_bytes() for path in out.iterdir()}
    assert found == answers(games, reviews, {"q4.reviews": 0})
    assert found["q4"] == b"app_id,name,reviews\n1,one,1\n"


def test_the_real_sample_has_the_known_number_of_rows(tmp_path: Path) -> None:
    folder = real_sample("steam")
    if not folder.is_dir():
        pytest.skip(NO_REAL_ROWS)
    games = folder / "games.csv"
    assert oracle.rejected(games, "games") == []
    # Nineteen of the thousand games lack genres.
    assert len(oracle.first_of_each_id(games)) == 981
    found = answers(games, written(tmp_path / "reviews.csv", REVIEWS, []), {})
    assert found["q1"] == b"platform,games\nLinux,169\nMac,239\nWindows,980\n"
