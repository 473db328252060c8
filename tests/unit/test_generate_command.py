import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from booksan import cli
from booksan.generate import GENERATORS, Generator, generator_named
from booksan.generate.books import generate_books


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["generate", *map(str, words)])


@pytest.mark.parametrize("name", list(GENERATORS))
def test_every_data_set_is_made_by_the_command(tmp_path: Path, name: str) -> None:
    done = invoke(name, "--out", tmp_path / "new", "--rows", "300", "--seed", "3", "--dirty")
    assert done.exit_code == 0, done.output
    generator = generator_named(name)
    assert isinstance(generator, Generator)
    same = generator.generate(tmp_path / "same", rows=300, seed=3, dirty=True)
    assert [path.name for path in same.paths] == list(generator.files)
    for written, told in zip(same.written, done.output.splitlines(), strict=True):
        assert (tmp_path / "new" / written.path.name).read_bytes() == written.path.read_bytes()
        assert f"{written.path.name}: {written.rows:,} rows" in told


@pytest.mark.parametrize("name", list(GENERATORS))
def test_all_generators_take_the_same_arguments(tmp_path: Path, name: str) -> None:
    told: list[int] = []
    made = GENERATORS[name].generate(
        tmp_path, rows=40, first_rows=7, seed=1, dirty=False, progress=told.append
    )
    assert [each.rows for each in made.written] == [7, 40]
    assert sum(told) == made.rows == 47
    assert made.bytes == sum(path.stat().st_size for path in made.paths)


def test_help_lists_the_data_sets() -> None:
    done = invoke("--help")
    assert done.exit_code == 0
    assert all(name in done.output for name in GENERATORS)


def test_books_are_a_tenth_of_the_reviews(tmp_path: Path) -> None:
    assert invoke("books", "--out", tmp_path).exit_code == 0
    made = generate_books(tmp_path / "same", books=1000, reviews=10_000, seed=1)
    for path in made.paths:
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ("--books", "30", "--reviews", "200"),
        ("--books=30", "--reviews=200"),
        ("--rows", "200", "--books", "30"),
    ],
)
def test_books_have_options_of_their_own(tmp_path: Path, words: Sequence[str]) -> None:
    assert invoke("books", "--out", tmp_path, *words).exit_code == 0
    made = generate_books(tmp_path / "same", books=30, reviews=200, seed=1)
    for path in made.paths:
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("flights", "--books", "3"),
            "flights knows no --books; did you mean '--rows'? known: --dirty, --json, --out, "
            "--rows, --seed; --rows counts the itineraries",
        ),
        (("steam", "--reviews=3"), "steam knows no --reviews"),
        (
            ("books", "--sede", "3"),
            "no --sede; did you mean '--seed'? known: --books, --dirty, ",
        ),
        (("aoe2", "extra"), "aoe2 knows no extra"),
        (("books", "--books", "many"), "--books needs a number of rows from 0 on, not 'many'"),
        (("books", "--books"), "--books needs a number"),
        (("books", "--reviews", "5", "--rows", "6"), "given twice"),
        (("films",), "no data set 'films' to generate; known: aoe2, books, "),
    ],
)
def test_a_wrong_word_is_told(tmp_path: Path, words: Sequence[str], message: str) -> None:
    done = invoke(*words, "--out", tmp_path / "none")
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "none").exists()


def test_only_the_data_set_that_is_asked_for_is_loaded() -> None:
    code = """
import sys
import booksan.cli
from booksan.generate import GENERATORS, generator_named
loaded = lambda: [name for name in GENERATORS if f"booksan.generate.{name}" in sys.modules]
assert loaded() == [], loaded()
for name in GENERATORS:
    before = loaded()
    generator_named(name)
    assert loaded() == [*before, name], loaded()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
