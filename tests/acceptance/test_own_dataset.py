"""The example of docs/datasets.md runs as it is written there."""

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.acceptance.command import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install .` makes of the example, in a directory of its own."""
    place = tmp_path_factory.mktemp("coffee")
    (code,) = blocks("python")
    (text,) = blocks("toml")
    project = tomllib.loads(text)["project"]
    (place / "coffee.py").write_text(code)
    info = place / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    heading = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(heading)
    ((group, points),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return place


def booksan(*words: str | Path, paths: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    more = filter(None, [os.environ.get("PYTHONPATH")])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, paths), *more])}
    command = [sys.executable, "-m", "booksan", *map(str, words)]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_the_example_is_short() -> None:
    (code,) = blocks("python")
    assert len(code.splitlines()) <= 80


def test_the_example_gives_the_answers_on_its_page(package: Path, tmp_path: Path) -> None:
    shops, sales, first, second = blocks("csv")
    (tmp_path / "shops.csv").write_text(shops)
    (tmp_path / "sales.csv").write_text(sales)
    out = tmp_path / "answers"
    files = tmp_path / "shops.csv", tmp_path / "sales.csv"
    work = tmp_path / "work"
    done = booksan("run", "coffee", *files, "--out", out, "--data-dir", work, paths=[package])
    assert done.returncode == 0, done.stderr
    assert (out / "q1.csv").read_text() == first
    assert (out / "q2.csv").read_text() == second
    (rejected,) = csv.DictReader((out / "rejected.csv").read_text().splitlines())
    assert rejected["reason"] == "cups is not a whole number: 'many'"
    assert rejected["reason"] in PAGE.read_text()


def test_it_is_listed_with_the_others(package: Path) -> None:
    done = booksan("datasets", "--json", paths=[package])
    names = [found["name"] for found in json.loads(done.stdout)]
    assert "coffee" in names
    assert len(names) > 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("import polars as pl", "import nowhere"), "'coffee' cannot be loaded: ModuleNotFound"),
        (('name="coffee"', 'name="tea"'), "the data set 'coffee' calls itself 'tea'"),
        (("DATASET = Dataset(", "DATASET = dict("), "'coffee' is not a Dataset but dict"),
        (('("q1-join",), Tally(busy)', '("q9",), Tally(busy)'), "stage q1-cities reads ['q9']"),
        (('return {"q1-join": Keyed(cups, "key")}', "return {}"), "source sales routes rows to []"),
    ],
)
def test_a_mistake_in_it_is_told_with_the_package(
    package: Path, tmp_path: Path, change: tuple[str, str], error: str
) -> None:
    (code,) = blocks("python")
    assert change[0] in code
    (tmp_path / "coffee.py").write_text(code.replace(*change))
    done = booksan("datasets", "coffee", paths=[tmp_path, package])
    assert done.returncode == 2
    assert done.stderr.startswith("booksan: package booksan-coffee: ")
    assert error in done.stderr
    assert "Traceback" not in done.stderr
