"""Every data set has a benchmark: a baseline that gives the same answers, and figures for both."""

import importlib
import json
import re
import subprocess
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from booksan.bench import cli, runner
from booksan.bench.baseline import cut, parse_parameters
from booksan.bench.report import bench_table
from booksan.bench.runner import BenchOptions, bench
from booksan.datasets import dataset_named
from booksan.generate.generator import GENERATORS, generator_named
from booksan.language import is_english
from tests.oracle import aoe2, flights, steam
from tests.support.real_rows import NO_REAL_ROWS, REAL_ROWS

BENCH = Path(runner.__file__).parent
#: Settings for which every query finds something in few rows.
SETTINGS = {
    "flights": ("q1.min_stopovers=2", "q2.times=1.3", "q3.min_stopovers=1", "q3.fastest=3"),
    "aoe2": ("q1.hours=0.55", "q1.rating=1500", "q2.margin=0.05", "q4.rating=1200.5", "q4.top=9"),
    "steam": ("q2.top=7", "q3.top=40", "q4.reviews=3", "q5.percentile=51.5", "q4.genre= ACTION"),
}
ORACLES: dict[str, Any] = {
    "flights": flights.answers,
    "aoe2": aoe2.answers,
    "steam": partial(steam.answers, is_english=is_english),
}


def test_every_data_set_that_can_be_made_has_a_benchmark() -> None:
    assert sorted(runner.benchmarks()) == sorted(GENERATORS)


@pytest.mark.parametrize("dataset", runner.benchmarks())
def test_baselines_have_the_parameters_of_the_queries(dataset: str) -> None:
    owner = "books" if dataset == "books" else f"duckdb_{dataset}"
    kind = importlib.import_module(f"booksan.bench.{owner}").Parameters
    defaults = dataset_named(dataset).defaults
    parameters = parse_parameters(kind, [f"{name}={value}" for name, value in defaults.items()])
    assert parameters == kind()
    assert len(defaults) == len(vars(kind()))


@pytest.mark.parametrize("dataset", runner.benchmarks())
def test_a_data_set_is_named_in_its_own_modules_only(dataset: str) -> None:
    for path in BENCH.glob("*.py"):
        # The sentiment is that of books, and nothing else.
        if not path.stem.endswith(dataset) and path.stem != "sentiment":
            assert not re.search(rf"\b{dataset}\b", path.read_text(encoding="utf-8")), path


def checked(dataset: str, files: Sequence[Path], out: Path, *settings: str) -> dict[str, bytes]:
    """The answers of the baseline, which must be those of the oracle."""
    baseline = runner.contestants_of(dataset)[-1]
    subprocess.run(baseline.command(files, out, settings), check=True, timeout=120)
    found = {path.stem: path.read_bytes() for path in out.iterdir()}
    assert found == ORACLES[dataset](*files, dataset_named(dataset).parse_params(settings))
    return found


@pytest.mark.parametrize("dataset", SETTINGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_baseline_gives_the_bytes_of_the_oracle(
    dataset: str, seed: int, tmp_path: Path
) -> None:
    made = generator_named(dataset).generate(tmp_path, rows=3_000, seed=seed)
    found = checked(dataset, made.paths, tmp_path / "out", *SETTINGS[dataset])
    assert all(len(answer.splitlines()) > 2 for answer in found.values())


@pytest.mark.parametrize("dataset", SETTINGS)
def test_the_baseline_gives_the_bytes_of_the_oracle_on_real_rows(
    dataset: str, tmp_path: Path
) -> None:
    files = [REAL_ROWS / dataset / name for name in generator_named(dataset).files]
    if not all(path.exists() for path in files):
        pytest.skip(NO_REAL_ROWS)
    checked(dataset, files, tmp_path / "out", *SETTINGS[dataset])


@pytest.mark.parametrize("dataset", SETTINGS)
def test_booksan_and_the_baseline_agree(dataset: str, tmp_path: Path) -> None:
    only = ("booksan", "duckdb")
    options = BenchOptions(
        dataset, rows=1_000, seed=3, data=tmp_path, only=only, settings=SETTINGS[dataset]
    )
    report = bench(options)
    assert report.differences == ()
    assert [result.name for result in report.results] == ["booksan", "duckdb"]
    assert report.data.rows[report.data.counted] == 1_000
    assert bench_table(report)


@pytest.mark.parametrize("dataset", SETTINGS)
def test_empty_files_have_empty_answers(dataset: str, tmp_path: Path) -> None:
    made = generator_named(dataset).generate(tmp_path, rows=0, seed=1, first_rows=20)
    checked(dataset, made.paths, tmp_path / "out")


@pytest.mark.parametrize("dataset", SETTINGS)
def test_the_command_knows_the_data_set(dataset: str, tmp_path: Path) -> None:
    words = [dataset, "--rows", "300", "--only", "duckdb", "--data", str(tmp_path), "--json"]
    done = CliRunner().invoke(cli.app, words, catch_exceptions=False)
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["agrees"] is True
    assert found["data"]["dataset"] == dataset
    assert list(found["data"]["rows"].values())[1] == 300


def test_a_threshold_is_cut_so_that_comparisons_stay_exact() -> None:
    assert cut(Fraction(1, 3)) == Decimal("0.333333")
    assert cut(Fraction(-1, 3)) == Decimal("-0.333334")
    assert cut(Fraction(5)) == 5
