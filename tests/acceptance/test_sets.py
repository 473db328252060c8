"""Flights, aoe2 and steam through the command: the answers of their oracles, to the last byte."""

import codecs
import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from booksan.generate.steam import GENERATOR
from tests.acceptance.crashes import orders_for, run_with_crashes
from tests.oracle import steam
from tests.support.command import Place
from tests.support.inputs import Inputs
from tests.support.oracle_rows import real_sample, written
from tests.support.real_rows import NO_REAL_ROWS
from tests.support.sets import SETTINGS

SETS = sorted(set(SETTINGS) - {"books"})
ROWS = 5_000
#: What is no text in the answers about flights.
NATIVE: Mapping[str, Callable[[str], object]] = {
    "stopovers": json.loads,
    **dict.fromkeys(
        ("price", "total_distance", "direct_distance", "mean_price", "max_price"), float
    ),
}
#: Points at which every worker of a run dies, in one life after the other.
HANDFULS = (
    ("computed", "committed", "final-in-transaction", "permit-in-transaction", "buried"),
    ("in-transaction", "partly-published", "acknowledged", "final-committed", "permit-committed"),
)


def ask(place: Place, inputs: Inputs, *more: str) -> None:
    ended = place.run(inputs.words("run", place.out, *more))
    assert ended.code == 0, ended.err
    assert not place.leftovers()


@pytest.mark.parametrize("dirty", [False, True], ids=["clean", "dirty"])
@pytest.mark.parametrize("name", SETS)
def test_the_answers_are_those_of_the_oracle(name: str, dirty: bool, place: Place) -> None:
    inputs = Inputs.make(name, place.root, 21, rows=ROWS, dirty=dirty)
    ask(place, inputs, "--batch-bytes", "200000")
    inputs.check(place.out)
    assert all(content.count(b"\n") > 1 for content in inputs.answers.values())
    assert bool(inputs.rejected) == dirty


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_other_formats_hold_numbers_and_lists_natively(form: str, place: Place) -> None:
    inputs = Inputs.make("flights", place.root, 22, rows=500)
    ask(place, inputs, "--format", form)
    for name, content in inputs.answers.items():
        path = place.out / f"{name}.{form}"
        found = json.loads(path.read_bytes()) if form == "json" else read_parquet(path)
        assert found == native(content)


def native(content: bytes) -> list[dict[str, object]]:
    rows = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return [{name: NATIVE.get(name, str)(text) for name, text in row.items()} for row in rows]


def read_parquet(path: Path) -> list[dict[str, object]]:
    return pl.read_parquet(path).to_dicts()


def test_games_under_a_header_of_40_names_have_the_answers_of_those_under_39(place: Place) -> None:
    """The other games here have one name less than fields, as the public ones."""
    made = {
        names: GENERATOR.generate(place.root / str(names), rows=1_000, seed=23, header_names=names)
        for names in (39, 40)
    }
    for names, one in made.items():
        header = one.paths[0].read_bytes().split(b"\n", 1)[0]
        assert header.count(b",") == names - 1
    ask(place, Inputs("steam", made[40].paths, SETTINGS["steam"]))
    expected = Inputs("steam", made[39].paths, SETTINGS["steam"])
    expected.check(place.out)
    assert all(content.count(b"\n") > 1 for content in expected.answers.values())


def test_airports_without_a_byte_order_mark_have_the_answers_of_those_with_one(
    place: Place,
) -> None:
    """The other airports here begin with one, as the public ones."""
    marked = Inputs.make("flights", place.root, 24, rows=500)
    airports, flights = marked.paths
    content = airports.read_bytes()
    assert content.startswith(codecs.BOM_UTF8 + b"Airport Code;")
    plain = place.root / "plain.csv"
    plain.write_bytes(content.removeprefix(codecs.BOM_UTF8))
    ask(place, replace(marked, paths=(plain, flights)))
    marked.check(place.out)
    assert marked.answers["q2"].count(b"\n") > 1


def test_the_answers_on_real_flights_are_those_of_the_oracle(place: Place) -> None:
    folder = real_folder("flights")
    paths = folder / "airports-codepublic.csv", folder / "itineraries.csv"
    inputs = Inputs("flights", paths, {"q2.times": 2.0})
    ask(place, inputs)
    inputs.check(place.out)
    assert all(content.count(b"\n") > 1 for content in inputs.answers.values())


def test_the_answers_on_real_games_are_those_of_the_oracle(place: Place) -> None:
    games = real_folder("steam") / "games.csv"
    inputs = Inputs("steam", (games, reviews_of(games, place.root)), SETTINGS["steam"])
    ask(place, inputs)
    inputs.check(place.out)
    assert all(content.count(b"\n") > 1 for content in inputs.answers.values())


def real_folder(name: str) -> Path:
    folder = real_sample(name)
    if not folder.is_dir():
        pytest.skip(NO_REAL_ROWS)
    return folder


def reviews_of(games: Path, root: Path) -> Path:
    """A few good and bad words about each of these games, and some about none."""
    apps = list(steam.first_of_each_id(games))
    texts = ("This game is a waste of time and money", "Das Spiel stürzt bei jedem Start ab")
    rows = [
        f"{app},{texts[number % 2]},{-1 if number % 3 else 1}"
        for place, app in enumerate([*apps, -1])
        for number in range(place % 7)
    ]
    return written(root / "reviews.csv", "app_id,review_text,review_score", rows)


@pytest.mark.parametrize("points", HANDFULS, ids=["early", "late"])
@pytest.mark.parametrize("name", SETS)
def test_every_worker_killed_at_one_point_after_the_other_changes_nothing(
    name: str,
    points: tuple[str, ...],
    place: Place,
    record_property: Callable[[str, object], None],
) -> None:
    inputs = Inputs.make(name, place.root, 25, rows=1_000)
    crashed = run_with_crashes(inputs, place, orders_for(name, points), batch_bytes=40_000)
    # The filter sends one message for each that it gets.
    assert set(crashed.left) <= {"q1-filter.0@partly-published@1"}
    record_property(f"real workers of {name} killed at {', '.join(points)}", crashed.kills)
