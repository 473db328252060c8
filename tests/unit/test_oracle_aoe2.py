"""The answers of aoe2, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import aoe2 as oracle
from tests.support.oracle_rows import Asked, written

MATCHES = "token,mirror,ladder,average_rating,map,server,duration"
PLAYERS = "match,rating,civ,winner"


@pytest.fixture
def answer(tmp_path: Path) -> Asked:
    return Asked(tmp_path, (MATCHES, PLAYERS), oracle.answers)


def test_every_answer_has_its_header_line_also_when_it_is_empty(tmp_path: Path) -> None:
    matches = written(tmp_path / "matches.csv", MATCHES, [])
    players = written(tmp_path / "players.csv", PLAYERS, [])
    assert oracle.answers(matches, players) == {
        "q1": b"match\n",
        "q2": b"match\n",
        "q3": b"civ,win_rate,games\n",
        "q4": b"rank,civ,uses\n",
    }


def test_bad_fields_of_matches_are_rejected_and_lacking_ones_are_not(tmp_path: Path) -> None:
    matches = [
        'a,True,RM_1v1,2001,arena,eastus,"1 day, 2:03:04"',
        ",,,,,,",
        "c,no,RM_1v1,2001,arena,eastus,2:03:04",
        "d,True,RM_1v1,high,arena,eastus,2:03:04",
        "e,True,RM_1v1,2001,arena,eastus,PT2H",
        "f,True,RM_1v1,2001,arena,eastus,2:03",
        "g,True,RM_1v1,2001,arena,eastus",
        "h,FALSE,RM_1v1, 2001.5 ,arena,eastus,02:03:04.5",
    ]
    path = written(tmp_path / "matches.csv", MATCHES, matches)
    assert oracle.rejected(path, "matches") == [3, 4, 5, 6, 7]


def test_bad_fields_of_players_are_rejected_and_lacking_ones_are_not(tmp_path: Path) -> None:
    players = ["a,1000,Goths,True", ",,,", "a,nan,Goths,True", "a,1000,Goths,1", "a,1000,Goths"]
    path = written(tmp_path / "players.csv", PLAYERS, players)
    assert oracle.rejected(path, "players") == [3, 4, 5]


# q1


def test_q1_takes_long_matches_of_strong_players_on_the_servers(answer: Asked) -> None:
    matches = [
        "a,,,2000.5,,eastus,2:00:01",
        "b,,,2000.0,,eastus,2:00:01",
        "c,,,2001,,eastus,2:00:00",
        "d,,,2001,,koreacentral,2:00:00.001",
        'B,,,2001,,southeastasia,"1 day, 0:00:00"',
        "e,,,2001,,eastus2,3:00:00",
        "f,,,2001,,Eastus,3:00:00",
        "g,,,2001,, eastus,3:00:00",
        "h,,,2001,,westus,3:00:00",
        "i,,,2e3,,eastus,120:00:00",
        "j,,,2.0001e3,,eastus,10:00:00",
    ]
    assert answer("q1", matches) == "B\na\nd\nj\n"


def test_q1_skips_matches_that_lack_what_it_needs(answer: Asked) -> None:
    matches = [
        ",,,2001,,eastus,3:00:00",
        "a,,,,,eastus,3:00:00",
        "b,,,2001,,,3:00:00",
        "c,,,2001,,eastus,",
    ]
    assert answer("q1", matches) == ""
    # No name of a server is none that could be asked for.
    assert answer("q1", matches, q1_servers="") == ""


def test_q1_takes_its_parameters(answer: Asked) -> None:
    matches = ["a,,,1.5,,x y,0:45:00", "b,,,1.6,,x y,0:45:01", "c,,,1.6,,z,0:45:01"]
    matches += ["d,,,1.6,, z,0:45:01"]
    found = answer("q1", matches, q1_hours="0.75", q1_rating=1.5, q1_servers="x y, z")
    assert found == "b\nd\n"


def test_the_hours_of_q1_are_the_decimal_that_is_written(answer: Asked) -> None:
    # As floats 1.1 * 3600 is 3960.0000000000005.
    assert answer("q1", ["a,,,2001,,eastus,1:06:00"], q1_hours=1.1) == ""
    assert answer("q1", ["a,,,2001,,eastus,1:06:00.0000000000000000001"], q1_hours=1.1) == "a\n"


def test_the_first_match_of_a_token_counts_whatever_it_lacks(answer: Asked) -> None:
    matches = [
        "short,,,2001,,eastus,1:00:00",
        "short,,,2001,,eastus,3:00:00",
        "long,,,2001,,eastus,3:00:00",
        "long,,,2001,,eastus,1:00:00",
        "lacking,,,,,,",
        "lacking,,,2001,,eastus,3:00:00",
        "rejected,,,bad,,eastus,3:00:00",
        "rejected,,,2001,,eastus,3:00:00",
    ]
    assert answer("q1", matches) == "long\nrejected\n"


# q2

DUEL = ["m,,RM_1v1,,,,"]


def test_q2_takes_matches_that_a_much_weaker_player_won(answer: Asked) -> None:
    matches = [f"{token},,RM_1v1,,,," for token in "dcba"]
    players = [
        *["a,1001,,True", "a,1400,,False"],
        *["b,1500,,false", "b,1100,,true"],
        *["c,1100,,False", "c,1500,,True"],
        *["d,1400,,True", "d,1500,,False"],
    ]
    assert answer("q2", matches, players) == "a\nb\n"


def test_a_margin_of_exactly_three_tenths_is_not_over_it(answer: Asked) -> None:
    # As floats (1300.13 - 1000.1) / 1000.1 is 0.3000000000000001.
    for winner, loser in [("2000", "2600"), ("1100", "1430"), ("1000.1", "1300.13")]:
        assert answer("q2", DUEL, [f"m,{winner},,True", f"m,{loser},,False"]) == ""
        above = f"{loser}{'' if '.' in loser else '.'}0000000000000000000001"
        assert answer("q2", DUEL, [f"m,{winner},,True", f"m,{above},,False"]) == "m\n"


def test_the_rating_of_the_winner_must_be_over_the_limit(answer: Asked) -> None:
    players = ["m,1000,,True", "m,2000,,False"]
    assert answer("q2", DUEL, players) == ""
    assert answer("q2", DUEL, ["m,1000.1,,True", "m,2000,,False"]) == "m\n"
    assert answer("q2", DUEL, players, q2_rating="999.9") == "m\n"


def test_a_winner_rated_nothing_has_no_margin(answer: Asked) -> None:
    players = ["m,0,,True", "m,2000,,False"]
    assert answer("q2", DUEL, players, q2_rating=-1) == ""


@pytest.mark.parametrize(
    "players",
    [
        ["m,1100,,True"],
        ["m,1100,,True", "m,2000,,False", "m,,,"],
        ["m,1100,,True", "m,2000,,False", "m,2000,,False"],
        ["m,,,True", "m,2000,,False"],
        ["m,1100,,True", "m,,,False"],
        ["m,1100,,True", "m,2000,,True"],
        ["m,1100,,False", "m,2000,,False"],
        ["m,1100,,True", "m,2000,,"],
        ["m,1100,,True", ",2000,,False"],
        ["m,1100,,True", "M,2000,,False"],
    ],
)
def test_q2_wants_two_rated_players_of_whom_one_won(answer: Asked, players: list[str]) -> None:
    assert answer("q2", DUEL, players) == ""


def test_q2_does_not_count_rejected_players(answer: Asked) -> None:
    players = ["m,1100,,True", "m,2000,,False", "m,many,,False", "m,1,,x"]
    assert answer("q2", DUEL, players) == "m\n"


def test_q2_looks_only_at_the_ladder_of_the_first_match_of_a_token(answer: Asked) -> None:
    matches = ["a,,RM_TEAM,,,,", "a,,RM_1v1,,,,", "b,,,,,,", "c,,rm_1v1,,,,", "d,,RM_1v1,,,,"]
    players = [row for t in "abcd" for row in (f"{t},1100,,True", f"{t},2000,,False")]
    assert answer("q2", matches, players) == "d\n"
    assert answer("q2", matches, players, q2_ladder="RM_TEAM") == "a\n"
    assert answer("q2", matches, players, q2_ladder="") == ""


def test_q2_takes_its_margin(answer: Asked) -> None:
    players = ["m,2000,,True", "m,2200,,False"]
    assert answer("q2", DUEL, players, q2_margin=0.1) == ""
    assert answer("q2", DUEL, players, q2_margin="0.09") == "m\n"


# q3


def test_q3_gives_the_win_rates_of_civilisations(answer: Asked) -> None:
    matches = [f"{n},False,RM_1v1,,arena,," for n in range(3)]
    players = ["0,,Goths,True", "0,,Turks,False", "1,,Goths,True", "1,,Turks,False"]
    players += ["2,,Goths,False", "2,,aztecs,TRUE", "2,,Huns,false"]
    expected = "Goths,66.66666666666667,3\nHuns,0.0,1\nTurks,0.0,2\naztecs,100.0,1\n"
    assert answer("q3", matches, players) == expected


def test_win_rates_are_rounded_once(answer: Asked) -> None:
    # As floats 7 / 25 * 100 is 28.000000000000004.
    players = ["m,,Goths,True"] * 7 + ["m,,Goths,False"] * 18
    assert answer("q3", ["m,False,RM_1v1,,arena,,"], players) == "Goths,28.0,25\n"


def test_q3_looks_only_at_matches_of_ladder_and_map_that_are_no_mirror(answer: Asked) -> None:
    matches = [
        "a,True,RM_1v1,,arena,,",
        "b,,RM_1v1,,arena,,",
        "c,False,RM_TEAM,,arena,,",
        "d,False,RM_1v1,,Arena,,",
        "e,False,,,arena,,",
        "f,False,RM_1v1,,,,",
        "g,false,RM_1v1,,arena,,",
    ]
    players = [f"{token},,{token},True" for token in "abcdefgh"]
    assert answer("q3", matches, players) == "g,100.0,1\n"
    assert answer("q3", matches, players, q3_ladder="RM_TEAM") == "c,100.0,1\n"
    assert answer("q3", matches, players, q3_map="Arena") == "d,100.0,1\n"
    assert answer("q3", matches, players, q3_map="") == ""


def test_q3_counts_players_with_civilisation_and_result_only(answer: Asked) -> None:
    players = ["m,,,True", "m,,Goths,", "m,,Goths,True", "m,,goths,False", "m,,Goths ,False"]
    expected = "Goths,100.0,1\nGoths ,0.0,1\ngoths,0.0,1\n"
    assert answer("q3", ["m,False,RM_1v1,,arena,,"], players) == expected


# q4

TEAMS = ["m,,RM_TEAM,,islands,,"]


def test_q4_ranks_by_uses_then_civilisation(answer: Asked) -> None:
    uses = {"Goths": 2, "Aztecs": 2, "Huns": 3, "Turks": 1, "Celts": 1, "Mayans": 1, "Britons": 1}
    players = [f"m,2001,{civ}," for civ, count in uses.items() for _ in range(count)]
    top = "1,Huns,3\n2,Aztecs,2\n3,Goths,2\n4,Britons,1\n5,Celts,1\n"
    assert answer("q4", TEAMS, players) == top
    assert answer("q4", TEAMS, players, q4_top="2") == "1,Huns,3\n2,Aztecs,2\n"


def test_q4_counts_players_rated_over_the_limit(answer: Asked) -> None:
    players = [
        "m,2000,a,",
        "m,2000.01,b,",
        "m,,c,",
        "m,3000,,",
        "m,2e3,d,",
        "m,1e4,e,",
        "x,3000,f,",
    ]
    assert answer("q4", TEAMS, players) == "1,b,1\n2,e,1\n"
    assert answer("q4", TEAMS, players, q4_rating=1999.5) == "1,a,1\n2,b,1\n3,d,1\n4,e,1\n"


def test_q4_looks_only_at_matches_of_ladder_and_map(answer: Asked) -> None:
    matches = [
        "a,,RM_1v1,,islands,,",
        "b,,RM_TEAM,,arena,,",
        "c,True,RM_TEAM,,islands,,",
        "d,,,,,,",
    ]
    players = [f"{token},2001,{token}," for token in "abcd"]
    assert answer("q4", matches, players) == "1,c,1\n"
    assert answer("q4", matches, players, q4_ladder="RM_1v1") == "1,a,1\n"
    assert answer("q4", matches, players, q4_map="arena") == "1,b,1\n"
    assert answer("q4", matches, players, q4_map="", q4_ladder="") == ""


# All


def test_the_ratings_asked_for_are_the_decimals_that_are_written(answer: Asked) -> None:
    # The float next to 0.3 is a little less.
    assert answer("q1", ["m,,,0.3,,eastus,3:00:00"], q1_rating=0.3) == ""
    assert answer("q2", DUEL, ["m,0.3,,True", "m,9,,False"], q2_rating=0.3) == ""
    assert answer("q4", TEAMS, ["m,0.3,Goths,"], q4_rating=0.3) == ""


def test_a_parameter_that_no_query_has_is_refused(answer: Asked) -> None:
    with pytest.raises(ValueError, match=r"q3\.rating"):
        answer("q3", q3_rating=1)


def test_the_command_line_writes_the_same_bytes(tmp_path: Path) -> None:
    matches = written(tmp_path / "matches.csv", MATCHES, ["m,,RM_TEAM,3,islands,eastus,3:00:00"])
    players = written(tmp_path / "players.csv", PLAYERS, ["m,2001,Goths,True"])
    out = tmp_path / "new" / "out"
    oracle.main([str(matches), str(players), str(out), "--set", "q1.rating=2.5"])
    found = {path.stem: path.read_bytes() for path in out.iterdir()}
    assert found == oracle.answers(matches, players, {"q1.rating": 2.5})
    assert (found["q1"], found["q4"]) == (b"match\nm\n", b"rank,civ,uses\n1,Goths,1\n")
