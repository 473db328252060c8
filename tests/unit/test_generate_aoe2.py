import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from booksan.errors import UsageError
from booksan.generate import generator
from booksan.generate.aoe2 import GENERATOR
from booksan.generate.generator import Chance
from booksan.generate.matches import Tokens
from tests.unit.reading import (
    BOOLEAN,
    CLOCK,
    CLOCKS,
    NUMBER,
    NUMBERS,
    Kinds,
    Row,
    check_dirty,
    digest,
    is_boolean,
    read_clean,
)

MATCH_COLUMNS = [
    *("token", "winning_team", "mirror", "ladder", "patch", "average_rating", "map", "map_size"),
    *("num_players", "server", "duration"),
]
PLAYER_COLUMNS = ["token", "match", "rating", "color", "civ", "team", "winner"]
MATCH_KINDS: Kinds = {"average_rating": NUMBERS, "mirror": BOOLEAN, "duration": CLOCKS}
PLAYER_KINDS: Kinds = {"rating": NUMBERS, "winner": BOOLEAN}


class Data(NamedTuple):
    """A clean data set, read back."""

    matches: list[Row]
    players: list[Row]

    def by_token(self) -> dict[str, Row]:
        first: dict[str, Row] = {}
        for match in self.matches:
            first.setdefault(match["token"], match)
        return first

    def played(self) -> Iterator[tuple[Row, Row]]:
        """Players with their matches."""
        known = self.by_token()
        for player in self.players:
            if player["match"] and player["match"] in known:
                yield known[player["match"]], player


def read(made: tuple[Path, Path]) -> Data:
    return Data(*map(read_clean, made))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return read(GENERATOR.generate(tmp_path_factory.mktemp("large"), rows=100_000, seed=1).paths)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return read(GENERATOR.generate(tmp_path_factory.mktemp("small"), rows=1000, seed=1).paths)


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
    assert digest(made) == "ecf3e565b2f4493c9bd82acee18a9539e135320f95a2e28b404e79a5c56823c7"


def test_files_have_the_columns_of_the_public_ones(large: Data) -> None:
    assert list(large.matches[0]) == MATCH_COLUMNS
    assert list(large.players[0]) == PLAYER_COLUMNS
    assert (len(large.matches), len(large.players)) == (32_404, 100_000)


@pytest.mark.parametrize(("matches", "rows"), [(0, 0), (0, 40), (50, 0), (3, 1), (10, 6000)])
def test_any_numbers_will_do(tmp_path: Path, matches: int, rows: int) -> None:
    made = GENERATOR.generate(tmp_path, rows=rows, first_rows=matches, seed=3)
    assert tuple(path.name for path in made.paths) == GENERATOR.files
    assert [len(each) for each in read(made.paths)] == [matches, rows]
    assert [each.rows for each in made.written] == [matches, rows]


def test_negative_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="-1"):
        GENERATOR.generate(tmp_path / "none", rows=-1, seed=1)
    assert not (tmp_path / "none").exists()


def test_no_two_tokens_are_equal() -> None:
    tokens = Tokens(Chance(1, "tokens"))
    made = {tokens.at(i) for i in range(100_000)}
    assert len(made) == 100_000
    assert {len(token) for token in made} == {16}


# Proportions.


def test_shares_are_those_of_the_public_data(large: Data) -> None:
    ladders = Counter(match["ladder"] for match in large.matches)
    assert ladders["RM_1v1"] / len(large.matches) == pytest.approx(0.68, abs=0.03)
    assert ladders["RM_TEAM"] / len(large.matches) == pytest.approx(0.28, abs=0.03)
    known = large.by_token()
    unknown = sum(player["match"] not in known for player in large.players)
    assert 0.002 < unknown / len(large.players) < 0.01
    unrated = sum(not player["rating"] for player in large.players)
    assert unrated / len(large.players) == pytest.approx(0.08, abs=0.01)
    assert sum(player["winner"] == "True" for player in large.players) == pytest.approx(
        50_000, rel=0.02
    )


def test_players_of_a_match_do_not_come_one_after_the_other(large: Data) -> None:
    matches = [player["match"] for player in large.players]
    assert sum(a == b for a, b in pairwise(matches)) < 500


def test_a_mirror_is_a_match_between_equal_civilisations(small: Data) -> None:
    civs: defaultdict[str, set[str]] = defaultdict(set)
    for match, player in small.played():
        if match["mirror"] == "True" and player["civ"]:
            civs[match["token"]].add(player["civ"])
    assert civs
    assert all(len(each) == 1 for each in civs.values())


# Warts.


@pytest.mark.parametrize(
    ("column", "pattern"),
    [
        *((name, r"\A\Z") for name in ("token", "mirror", "ladder", "average_rating", "map")),
        *((name, r"\A\Z") for name in ("server", "duration")),
        *(("mirror", pattern) for pattern in ("True", "False", "TRUE", "false")),
        *(
            ("duration", pattern)
            for pattern in (r"\A\d+:\d\d:\d\d\Z", "1 day, ", "2 days, ", r"\.")
        ),
        *(("map", pattern) for pattern in (",", '"', "\n", "[^ -~]", "Arena")),
        *(("average_rating", pattern) for pattern in (r"\A ", "e", r"\A[+]", r"\A\d+\Z")),
    ],
)
def test_warts_of_matches_are_there(large: Data, column: str, pattern: str) -> None:
    assert any(re.search(pattern, match[column]) for match in large.matches)


@pytest.mark.parametrize(
    ("column", "pattern"),
    [
        *((name, r"\A\Z") for name in ("token", "match", "rating", "civ", "winner")),
        *(("winner", pattern) for pattern in ("TRUE", "false")),
        *(("civ", pattern) for pattern in (",", '"', "\n", "[^ -~]", "vikings", r" \Z")),
        *(("rating", pattern) for pattern in (r"\A ", "e0", r"\A[+]", r"\A\d+\Z")),
    ],
)
def test_warts_of_players_are_there(large: Data, column: str, pattern: str) -> None:
    assert any(re.search(pattern, player[column]) for player in large.players)


def test_tokens_of_matches_come_twice_with_another_content(large: Data) -> None:
    first = large.by_token()
    again = [match for match in large.matches if first[match["token"]] is not match]
    assert 50 < len([match for match in again if match["token"]]) < 200
    assert any(first[match["token"]]["ladder"] != match["ladder"] for match in again)


def test_some_duels_have_not_two_players_or_not_one_winner(large: Data) -> None:
    players: defaultdict[str, list[str]] = defaultdict(list)
    for match, player in large.played():
        if match["ladder"] == "RM_1v1":
            players[match["token"]].append(player["winner"])
    assert {1, 2, 3} <= {len(each) for each in players.values()}
    assert any(sorted(each) == ["True", "True"] for each in players.values())


def test_every_value_that_is_there_can_be_read(large: Data) -> None:
    for match in large.matches:
        assert not match["duration"] or CLOCK.fullmatch(match["duration"])
        assert not match["average_rating"] or NUMBER.fullmatch(match["average_rating"])
        assert not match["mirror"] or is_boolean(match["mirror"])
    for player in large.players:
        assert not player["rating"] or NUMBER.fullmatch(player["rating"])
        assert not player["winner"] or is_boolean(player["winner"])


# Every query has something to find.


def q1(data: Data) -> tuple[int, int]:
    """Matches of the best on the three servers: longer than two hours, and in all."""
    best = [
        match["duration"]
        for match in data.by_token().values()
        if match["server"] in ("koreacentral", "southeastasia", "eastus")
        and float(match["average_rating"] or 0) > 2000
    ]
    longer = [each for each in best if re.match(r"\d+ day|[2-9]:", each) and each != "2:00:00"]
    return len(longer), len(best)


def q2(data: Data) -> int:
    ratings: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for match, player in data.played():
        if match["ladder"] == "RM_1v1":
            ratings[match["token"]].append((player["winner"].lower(), player["rating"]))
    found = 0
    for pair in map(sorted, ratings.values()):
        if [winner for winner, _ in pair] == ["false", "true"] and all(
            rating for _, rating in pair
        ):
            lost, won = (float(rating) for _, rating in pair)
            found += won > 1000 and lost - won > 0.3 * won
    return found


def q3(data: Data) -> Counter[str]:
    return Counter(
        player["civ"] for match, player in data.played()
        if (match["ladder"], match["map"], match["mirror"]) == ("RM_1v1", "arena", "False")
    )  # fmt: skip


def q4(data: Data) -> Counter[str]:
    return Counter(
        player["civ"] for match, player in data.played()
        if (match["ladder"], match["map"]) == ("RM_TEAM", "islands")
        and float(player["rating"] or 0) > 2000
    )  # fmt: skip


def test_every_query_hits_with_its_defaults(large: Data) -> None:
    found, best = q1(large)
    assert 5 <= found < best
    assert q2(large) >= 30
    assert len(q3(large)) > 37
    assert [civ for civ, _ in q4(large).most_common(3)] == ["Vikings", "Italians", "Portuguese"]


def test_small_data_is_varied_enough(small: Data) -> None:
    assert q1(small)[0] >= 3
    assert q2(small) >= 5
    assert len(q3(small)) >= 15
    assert len(q4(small)) >= 5


# Dirty files.


@pytest.mark.parametrize(("seed", "rows"), [(4, 4000), (1, 400), (2, 90)])
def test_a_dirty_file_holds_the_clean_rows_and_the_named_bad_ones(
    tmp_path: Path, seed: int, rows: int
) -> None:
    clean = GENERATOR.generate(tmp_path / "clean", rows=rows, seed=seed)
    dirty = GENERATOR.generate(tmp_path / "dirty", rows=rows, seed=seed, dirty=True)
    check_dirty(clean.first, dirty.first, MATCH_KINDS)
    check_dirty(clean.second, dirty.second, PLAYER_KINDS)
    if rows >= 4000:
        both = {
            generator.TOO_FEW,
            generator.TOO_MANY,
            generator.AFTER_QUOTE,
            generator.NOT_UTF8,
            generator.NUL,
        }
        both |= {generator.NOT_A_NUMBER, generator.NO_BOOLEAN, generator.UNTERMINATED}
        assert set(dirty.first.bad) == both | {generator.NO_DURATION}
        assert set(dirty.second.bad) == both | {generator.TOO_LONG}
