"""The example of docs/datasets.md runs as it is written there, and mistakes in it are told."""

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.command import PATIENCE, Place, wait_until
from tests.support.hosts import place_for_hosts, read_json

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def example(*changes: tuple[str, str]) -> str:
    (code,) = blocks("python")
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    return code


def line_of(code: str, text: str) -> int:
    """The number of the only line with this text."""
    (number,) = [n for n, line in enumerate(code.splitlines(), 1) if text in line]
    return number


def installed(place: Path, project: str, version: str, points: dict[str, str]) -> Path:
    """What `pip install .` makes of a project, in a directory of its own."""
    info = place / f"{project.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
    lines = ["[booksan.datasets]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return place


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("coffee")
    (text,) = blocks("toml")
    project = tomllib.loads(text)["project"]
    (place / "coffee.py").write_text(example())
    ((group, points),) = project["entry-points"].items()
    assert group == "booksan.datasets"
    return installed(place, project["name"], project["version"], points)


@pytest.fixture
def broken_tea(tmp_path: Path) -> Path:
    """A second package, whose data set cannot be loaded."""
    place = installed(tmp_path / "tea", "booksan-tea", "1.0", {"tea": "tea:DATASET"})
    (place / "tea.py").write_text("raise SystemExit('no leaves')\n")
    return place


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    shops, sales, *_ = blocks("csv")
    (tmp_path / "shops.csv").write_text(shops)
    (tmp_path / "sales.csv").write_text(sales)
    return [tmp_path / "shops.csv", tmp_path / "sales.csv"]


def environment(paths: Sequence[Path]) -> dict[str, str]:
    more = filter(None, [os.environ.get("PYTHONPATH")])
    return {"PYTHONPATH": os.pathsep.join([*map(str, paths), *more])}


def booksan(*words: str | Path, paths: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "booksan", *map(str, words)]
    done = subprocess.run(
        command,
        env=os.environ | environment(paths),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert "Traceback" not in done.stderr
    return done


def run_coffee(
    files: Sequence[Path], place: Path, paths: Sequence[Path], *more: str
) -> subprocess.CompletedProcess[str]:
    places = ("--out", place / "answers", "--data-dir", place / "work")
    return booksan("run", "coffee", *files, *places, *more, paths=paths)


def test_the_example_is_short() -> None:
    assert len(example().splitlines()) <= 80


def test_the_example_gives_the_answers_on_its_page(
    package: Path, files: list[Path], tmp_path: Path
) -> None:
    first, second = blocks("csv")[2:]
    done = run_coffee(files, tmp_path, [package])
    assert done.returncode == 0, done.stderr
    assert "matched any" not in done.stderr
    out = tmp_path / "answers"
    assert (out / "q1.csv").read_text() == first
    assert (out / "q2.csv").read_text() == second
    (rejected,) = csv.DictReader((out / "rejected.csv").read_text().splitlines())
    assert rejected["reason"] == "cups is not a whole number: 'many'"
    assert rejected["reason"] in PAGE.read_text()


def test_it_is_listed_with_the_others(package: Path) -> None:
    done = booksan("datasets", "--json", paths=[package])
    found = json.loads(done.stdout)
    names = [each["name"] for each in found["datasets"]]
    assert "coffee" in names
    assert len(names) > 1
    assert found["broken"] == {}
    assert done.stderr == ""


#: What is written instead of what, and what is said about it.
MISTAKES = {
    "a bad import": ("import polars as pl", "import nowhere", "'coffee' cannot be loaded: ModuleN"),
    "an exit at import": (
        "CITY = {",
        "raise SystemExit(3)\nCITY = {",
        "'coffee' cannot be loaded: SystemExit: 3 (coffee.py, line ",
    ),
    "a syntax error": ("def busy(", "def busy((", "'coffee' cannot be loaded: SyntaxError: "),
    "another name": ('name="coffee"', 'name="tea"', "the data set 'coffee' calls itself 'tea'"),
    "no data set": ("DATASET = Dataset(", "DATASET = dict(", "is not a Dataset but dict"),
    "an unknown input": (
        '("q1-join",), Tally(busy)',
        '("q1-jion",), Tally(busy)',
        "stage q1-cities reads ['q1-jion'], which no source or stage provides; did you mean "
        "'q1-join'?",
    ),
    "no tuple": (
        '("q1-join",), Tally(busy)',
        '("q1-join"), Tally(busy)',
        "the inputs of stage q1-cities must be a tuple, not 'q1-join': write ('q1-join',)",
    ),
    "a source without rows for its reader": (
        'return {"q1-join": Keyed(cups, "key")}',
        "return {}",
        "source sales routes rows to [], but is read by ['q1-join']; return rows for each",
    ),
    "a stage without rows for its reader": (
        '        "q2-top": Keyed(frame_of(rows, SHOP)),\n',
        "",
        "stage q1-join gives rows to ['q1-cities'], but is read by ['q1-cities', 'q2-top']; return",
    ),
    "a route that returns no rows": (
        'return {"q1-join": Keyed(cups, "key")}',
        "return cups",
        "source sales: it must return rows by stage, such as {'q1-join': Keyed(frame, \"key\")}, "
        "and not DataFrame",
    ),
    "a route without its key": (
        'return {"q1-join": Keyed(cups, "key")}',
        'return {"q1-join": cups}',
        "source sales: rows for q1-join must be Keyed(frame, key) with a polars.DataFrame, and not "
        "DataFrame",
    ),
    "a parameter in a loop": (
        'params["q1.cups"]',
        'params["q1.cps"]',
        "stage q1-cities: there is no parameter 'q1.cps'; did you mean 'q1.cups'? known: q1.cups, "
        "q2.top (coffee.py, line ",
    ),
    "a parameter of a route": (
        "    sales = frame",
        '    least = params["q1.cusp"]\n    sales = frame',
        "source sales cannot route an empty batch: there is no parameter 'q1.cusp'; did you mean "
        "'q1.cups'?",
    ),
    "a parameter of an operator": (
        'Top("q2.top"',
        'Top("q2.tp"',
        "stage q2-top cannot work on no rows: there is no parameter 'q2.tp'; did you mean "
        "'q2.top'?",
    ),
    "a column of a route": (
        'pl.col("cups") != ""',
        'pl.col("cusp") != ""',
        "source sales cannot route an empty batch: there is no column 'cusp'; did you mean "
        "'cups'? known: cups, row, shop (coffee.py, line ",
    ),
    "a column that a join keeps": (
        'keep=("city",)',
        'keep=("cities",)',
        "stage q1-join cannot work on no rows: there is no column 'cities'; did you mean 'city'?",
    ),
    "a column of a top": (
        '"q2-top": Keyed(frame_of(rows, SHOP))',
        '"q2-top": Keyed(frame_of(rows, SHOP).drop("city"))',
        "stage q2-top cannot work on no rows: there is no column 'city'; known: cups, shop",
    ),
    "a key that is not there": (
        'Keyed(cups, "key")',
        'Keyed(cups, "keys")',
        "source sales: rows for q1-join have no column keys; did you mean 'key'? known: key, n",
    ),
    "a ring": (
        '("shops", "sales"),',
        '("shops", "sales", "q2-top"),',
        "its stages read each other in a ring: q",
    ),
    "a join that is not said": (
        '            joins=("shops",),\n',
        "",
        "stage q1-join joins rows to shops, so it needs joins=('shops',)",
    ),
    "a query that no stage answers": (
        'Query("q1", "q1-cities"',
        'Query("q1", "q1-city"',
        "query q1 has no stage q1-city; did you mean 'q1-cities'?",
    ),
    "columns that its stage does not give": (
        '{"rank": ColumnType.INTEGER, **SHOP}, ("rank",)',
        '{"place": ColumnType.INTEGER, **SHOP}, ("place",)',
        "query q2 has the columns ['place'], which stage q2-top does not give; known: city, cups, "
        "rank, shop",
    ),
    "an answer of a taken name": (
        'Query("q2"',
        'Query("batches"',
        "a query may not be named 'batches', which is a table's name; use another",
    ),
    "two stages of one name": (
        'Stage("q1-cities"',
        'Stage("q2-top"',
        "a source or stage is named twice: q2-top",
    ),
    "a reserved name": (
        'Stage("q1-cities"',
        'Stage("results"',
        "a stage may not be named 'results', which every data set has; use another name",
    ),
    "a default that is none": (
        'Param("q1.cups", 10',
        'Param("q1.cups", None',
        "parameter q1.cups: its default must be a number or text, not None",
    ),
    "a default of the wrong type": (
        'Param("q1.cups", 10',
        'Param("q1.cups", "10"',
        "parameter q1.cups: its default is the text '10', but it has bounds; write a number",
    ),
    "a declaration of nonsense": (
        '("shop", "city"), route_shops',
        '("shop", 5), route_shops',
        "data set coffee: its declaration cannot be read: ",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_it_is_told_with_the_package(
    package: Path, tmp_path: Path, mistake: str
) -> None:
    old, new, error = MISTAKES[mistake]
    (tmp_path / "coffee.py").write_text(example((old, new)))
    done = booksan("datasets", "coffee", paths=[tmp_path, package])
    assert done.returncode == 2
    assert done.stderr.startswith("booksan: package booksan-coffee: ")
    assert error in done.stderr
    assert len(done.stderr.splitlines()) == 1


ODD = """
class Odd(Tally):
    def prepare_rows(self, name, frame):
        return [10 // 0] if frame.height else super().prepare_rows(name, frame)


"""

#: What is written instead of what, what the run fails with, and a part of the guilty line.
FAILURES: dict[str, tuple[list[tuple[str, str]], str, str]] = {
    "a route": (
        [("    sales = frame", "    share = 100 // (6 - frame.height)\n    sales = frame")],
        "gateway/sales: batch 0 cannot be routed",
        "100 //",
    ),
    "a final": (
        [("(city.key, city.total)", "(city.key, city.total // (city.total - 14))")],
        "q1-cities.0: its output cannot be made",
        "- 14))",
    ),
    "an operator": (
        [
            ("DATASET = Dataset(", f"{ODD}DATASET = Dataset("),
            ("            Tally(by_city", "            Odd(by_city"),
        ],
        "q1-join.0: dead letter",
        "10 // 0",
    ),
}


@pytest.mark.parametrize("guilty", FAILURES)
def test_a_failure_in_its_code_names_the_line(
    package: Path, files: list[Path], tmp_path: Path, guilty: str
) -> None:
    changes, reason, text = FAILURES[guilty]
    code = example(*changes)
    code_dir = tmp_path / "code"
    code_dir.mkdir()
    (code_dir / "coffee.py").write_text(code)
    files[1].write_text("shop,cups\nBean,7\nDrip,4\nMug,5\nBean,2\nNowhere,100\nDrip,5\n")
    paths = [code_dir, package]
    done = run_coffee(files, tmp_path, paths)
    assert done.returncode == 5, done.stderr
    place = re.escape(f"(coffee.py, line {line_of(code, text)})")
    told = rf"{re.escape(reason)}: ZeroDivisionError: [a-z ]* by zero {place}"
    assert re.search(told, done.stderr), done.stderr
    if guilty != "an operator":
        return
    at = ("--data-dir", tmp_path / "work")
    listed = booksan("letters", "list", "--json", *at, paths=paths)
    (letter,) = json.loads(listed.stdout)["letters"]
    shown = booksan("letters", "show", letter["id"], *at, paths=paths).stdout
    assert "Traceback (most recent call last):" in shown
    assert f'coffee.py", line {line_of(code, text)}, in prepare_rows' in shown


def test_a_join_in_which_nothing_matched_says_so(
    package: Path, files: list[Path], tmp_path: Path
) -> None:
    files[1].write_text("shop,cups\nbean,7\ndrip,4\nmug,5\n")
    done = run_coffee(files, tmp_path, [package], "--json")
    assert done.returncode == 0, done.stderr
    (note,) = json.loads(done.stdout)["unmatched"]
    assert note.startswith("0 of 3 sales matched any of the shops; ")
    assert f"booksan: {note}" in done.stderr


def test_one_that_is_broken_disables_only_itself(
    package: Path, broken_tea: Path, files: list[Path], tmp_path: Path
) -> None:
    paths = [package, broken_tea]
    reason = "package booksan-tea: 'tea' cannot be loaded: SystemExit: no leaves (tea.py, line 1)"
    listed = booksan("datasets", "--json", paths=paths)
    assert listed.returncode == 0
    found = json.loads(listed.stdout)
    assert {"books", "coffee"} <= {each["name"] for each in found["datasets"]}
    assert found["broken"] == {"tea": reason}
    assert listed.stderr == f"booksan: warning: the data set tea is left out: {reason}\n"
    asked = booksan("datasets", "tea", paths=paths)
    assert (asked.returncode, asked.stderr) == (2, f"booksan: {reason}\n")
    assert run_coffee(files, tmp_path, paths).returncode == 0


def test_two_packages_that_bring_one_name_are_both_left_out(package: Path, tmp_path: Path) -> None:
    twin = installed(tmp_path / "twin", "other-coffee", "1.0", {"coffee": "coffee:DATASET"})
    reason = (
        "packages booksan-coffee and other-coffee bring a data set 'coffee' each, so neither is "
        "used; remove one of them"
    )
    listed = booksan("datasets", "--json", paths=[package, twin])
    names = [each["name"] for each in json.loads(listed.stdout)["datasets"]]
    assert "coffee" not in names
    assert "books" in names
    assert reason in listed.stderr
    asked = booksan("datasets", "coffee", paths=[package, twin])
    assert (asked.returncode, asked.stderr) == (2, f"booksan: {reason}\n")


def test_one_that_is_named_as_a_data_set_of_booksan_is_left_out(tmp_path: Path) -> None:
    place = installed(tmp_path / "own", "my-books", "1.0", {"books": "coffee:DATASET"})
    listed = booksan("datasets", "--json", paths=[place])
    assert "books" in [each["name"] for each in json.loads(listed.stdout)["datasets"]]
    assert "package my-books: booksan has a data set 'books' of its own" in listed.stderr


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


def test_the_default_host_serves_it(
    package: Path, broken_tea: Path, files: list[Path], place: Place
) -> None:
    env = environment([package, broken_tea])
    data = place.state / "booksan/hosts/single/single"

    def submitted(name: str, *more: str) -> "subprocess.CompletedProcess[str]":
        words = ["submit", name, *files, "--server", url, "--out", place.out, *more]
        return subprocess.run(
            [sys.executable, "-m", "booksan", *map(str, words)],
            env=place.environment(env),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    with place.started(["host", "--port", "0"], env) as host:
        wait_until(lambda: read_json(data / "host-status.json").get("state") == "running")
        wait_until(lambda: read_json(data / "gateway-address.json"))
        url = str(read_json(data / "gateway-address.json")["url"])
        done = submitted("coffee")
        assert done.returncode == 0, done.stderr
        assert (place.out / "q1.csv").read_text() == blocks("csv")[2]
        files[1].write_text("shop,cups\nbean,7\ndrip,4\n")
        unmatched = submitted("coffee")
        assert "0 of 2 sales matched any of the shops" in unmatched.stderr
        refused = submitted("tea")
        assert refused.returncode == 2
        assert "tea cannot be used at the server: package booksan-tea: " in refused.stderr
        host.terminate()
        assert "the data set tea is left out: package booksan-tea" in place.ended(host).err
