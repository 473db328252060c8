"""Numbers at and beyond the edges of floats: the answers are the oracle's, or the row is rejected.

A number may have 400 characters and an exponent of 400 either way. Nothing is computed of one that
has more, so that a short text cannot take memory or time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from booksan.datasets import dataset_named
from booksan.spec import HOME
from booksan.stages.flights import above_the_mean
from booksan_common.params import ParamValue
from tests.simulation.test_sets import assert_right
from tests.simulation.world import World
from tests.support.data import Sample, shards_of
from tests.support.sets import SETTINGS, sample_from

MakeWorld = Callable[..., World]

#: The largest float, and what is beyond it; the smallest, and what rounds to nothing.
EDGES = ("1.7976931348623157e308", "1e308", "-1e308", "1e309", "5e-324", "1e-400", "1e400")
#: Numbers whose digits are many, and zeros that have a sign.
LONG = ("9" * 390, f"0.{'0' * 380}1", f"{'1' * 190}.{'7' * 190}", "-0.0", "+0e400", "0.1", "489.50")
#: No number at all, or out of range; a million digits would be needed for the last two.
REFUSED = ("1e401", "1e-401", "9" * 401, "Infinity", "NaN", "1e999999999", "1e-999999999")
HARD = (*EDGES, *LONG, *REFUSED)

HEADERS: Mapping[str, tuple[str, str]] = {
    "books": (
        "Title,authors,publisher,publishedDate,categories",
        "Title,review/score,review/text",
    ),
    "flights": (
        "Airport Code;Latitude;Longitude",
        "legId,startingAirport,destinationAirport,travelDuration,totalFare,totalTravelDistance,"
        "segmentsArrivalAirportCode",
    ),
    "aoe2": (
        "token,mirror,ladder,average_rating,map,server,duration",
        "match,rating,civ,winner",
    ),
    "steam": (
        "AppID,Name,Release date,Windows,Mac,Linux,Genres,Average playtime forever",
        "app_id,review_text,review_score",
    ),
}
Lines = tuple[list[str], list[str]]


def books(numbers: Sequence[str]) -> Lines:
    """Each number alone, and all of them for one book."""
    titles = [f"T{place}e" for place in range(len(numbers))]
    first = [f"{title},['A'],P,1991,['Fiction']" for title in ("Same", *titles)]
    second = [f"{title},{n},good" for title, n in zip(titles, numbers, strict=True)]
    return first, second + [f"Same,{n},bad" for n in numbers]


def flights(numbers: Sequence[str]) -> Lines:
    first = ["AAA;10;20", "BBB;11;21", *(f"X{place};{n};{n}" for place, n in enumerate(numbers))]
    second = []
    for place, n in enumerate(numbers):
        second.append(f"a{place},AAA,BBB,PT1H,{n},{n},CCC||BBB")
        second.append(f"b{place},AAA,X{place},PT2H,{n},{n},CCC||BBB")
        second.append(f"c{place},BBB,AAA,PT2H,{n},1000,CCC||BBB")
    return first, second


def aoe2(numbers: Sequence[str]) -> Lines:
    first = [f"m{place},False,RM_1v1,{n},arabia,eastus,1:00:00" for place, n in enumerate(numbers)]
    first += [
        f"t{place},False,RM_TEAM,{n},arabia,eastus,1:00:00" for place, n in enumerate(numbers)
    ]
    second = []
    for place, n in enumerate(numbers):
        other = numbers[place - 1]
        second += [f"m{place},{n},Aztecs,False", f"m{place},{other},Huns,True"]
        second += [f"t{place},{n},Celts,True"]
    return first, second


def steam(numbers: Sequence[str]) -> Lines:
    def game(app: str, place: int, playtime: str) -> str:
        return f"{app},Game {place},2015,True,False,True,Indie,{playtime}"

    first = [game(str(place), place, n) for place, n in enumerate(numbers)]
    first += [game(n, 1_000 + place, "7") for place, n in enumerate(numbers)]
    second = [f"{place},a fine game it is,{n}" for place, n in enumerate(numbers)]
    return first, second + [f"{n},this is a bad game,-1" for n in numbers]


MAKERS = {"books": books, "flights": flights, "aoe2": aoe2, "steam": steam}


def hard_sample(folder: Path, name: str, numbers: Sequence[str]) -> Sample:
    return sample_of_lines(folder, name, MAKERS[name](numbers))


def sample_of_lines(folder: Path, name: str, lines: Lines) -> Sample:
    paths = folder / "first.csv", folder / "second.csv"
    for path, header, rows in zip(paths, HEADERS[name], lines, strict=True):
        write(path, header, rows)
    params: dict[str, ParamValue] = {**dataset_named(name).defaults, **SETTINGS[name]}
    return sample_from(name, paths, params, batch_bytes=300)


def check(make_world: MakeWorld, name: str, expected: Sample) -> dict[str, bytes]:
    """Runs it through the stages; every answer must be the oracle's."""
    world = make_world(1)
    world.add_client(expected.spec("one", shards_of(name, 2)), expected.batches)
    world.run()
    assert_right(world, "one", expected)
    return expected.answers


def write(path: Path, header: str, rows: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in (header, *rows)))


@pytest.mark.parametrize("name", sorted(MAKERS))
@pytest.mark.parametrize("number", HARD, ids=lambda number: number[:24])
def test_one_hard_number_gives_the_oracles_answers(
    make_world: MakeWorld, tmp_path: Path, name: str, number: str
) -> None:
    check(make_world, name, hard_sample(tmp_path, name, [number, "3"]))


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_all_hard_numbers_together_give_the_oracles_answers(
    make_world: MakeWorld, tmp_path: Path, name: str
) -> None:
    answers = check(make_world, name, hard_sample(tmp_path, name, HARD))
    assert any(answer.count(b"\n") > 1 for answer in answers.values())


@pytest.mark.parametrize(
    ("prices", "mean"),
    [
        (["1e308"] * 3, b"1e+308"),
        (["1.7976931348623157e308"] * 2, b"1.7976931348623157e+308"),
        (["1e309", "3e309"], b"inf"),
        (["1e400", "-1e400", "3"], b"inf"),
    ],
    ids=["sum-beyond-floats", "largest-float", "mean-beyond-floats", "cancels"],
)
def test_sums_beyond_floats_have_the_mean_that_they_have(
    make_world: MakeWorld, tmp_path: Path, prices: list[str], mean: bytes
) -> None:
    lines = [f"f{n},AAA,BBB,PT1H,{price},1,BBB" for n, price in enumerate([*prices, "-1e400"])]
    answers = check(make_world, "flights", sample_of_lines(tmp_path, "flights", ([], lines)))
    assert answers["q4"].splitlines()[1].split(b",")[1] == mean


def test_a_price_that_came_ten_thousand_million_times_has_its_own_mean() -> None:
    prices = pl.DataFrame({"key": ["3 AAA-BBB"], "value": ["999999.9999"], "n": [10**10]})
    rows = above_the_mean(prices, {}, [["0", 1]])[HOME].frame.rows()
    assert rows == [("AAA-BBB", 999999.9999, "999999.9999")]
