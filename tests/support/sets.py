"""Small data of every data set for the simulation, with what its oracle says of it."""

import functools
import importlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from booksan.datasets import dataset_named, describe
from booksan.generate import generator_named
from booksan.language import is_english
from booksan_client.inputs import look_at
from booksan_common.cutter import Cutter, open_source
from booksan_common.params import ParamValue
from tests.support.data import Sample

#: Thresholds that let something of a few rows through, and keep something out.
SETTINGS: Mapping[str, Mapping[str, ParamValue]] = {
    "books": {
        "q1.category": "Fiction",
        "q1.from_year": 1900,
        "q1.word": "e",
        "q2.decades": 2,
        "q3.min_reviews": 1,
        "q3.from_year": 1960,
        "q5.percentile": 50.0,
    },
    "flights": {"q1.min_stopovers": 1, "q2.times": 1.1, "q3.min_stopovers": 1, "q3.fastest": 1},
    "aoe2": {
        "q1.hours": 0.5,
        "q1.rating": 1000.0,
        "q2.rating": 500.0,
        "q2.margin": 0.01,
        "q3.map": "arabia",
        "q4.map": "arabia",
        "q4.rating": 1000.0,
        "q4.top": 3,
    },
    "steam": {
        "q2.from_year": 2000,
        "q2.to_year": 2030,
        "q2.top": 4,
        "q3.top": 3,
        "q4.genre": "Indie",
        "q4.reviews": 1,
        "q5.genre": "Indie",
        "q5.percentile": 40.0,
    },
}


def oracle_of(name: str) -> Any:
    return importlib.import_module(f"tests.oracle.{name}")


def oracle_answers(
    name: str, paths: tuple[Path, Path], params: Mapping[str, object]
) -> dict[str, bytes]:
    """Only what the detector says of a language is not the oracle's own."""
    extra = {"is_english": is_english} if name == "steam" else {}
    found: dict[str, bytes] = oracle_of(name).answers(*paths, params, **extra)
    return found


@functools.cache
def sample_of(
    name: str, seed: int, *, rows: int = 60, dirty: bool = False, batch_bytes: int = 6_000
) -> Sample:
    params = {**dataset_named(name).defaults, **SETTINGS[name]}
    with tempfile.TemporaryDirectory() as directory:
        made = generator_named(name).generate(
            Path(directory), rows=rows, seed=seed, dirty=dirty, first_rows=rows
        )
        return sample_from(name, made.paths, params, batch_bytes)


def sample_from(
    name: str, paths: tuple[Path, Path], params: dict[str, ParamValue], batch_bytes: int
) -> Sample:
    batches, columns, rejected = {}, {}, {}
    for each in look_at(describe(dataset_named(name)), paths):
        source = each.source
        with open_source(each.path) as stream:
            start = each.header.end
            stream.seek(start)
            cutter = Cutter(stream, start, batch_bytes=batch_bytes, delimiter=source.delimiter)
            batches[source.name] = tuple(batch.data for batch in cutter)
        columns[source.name] = each.header.names
        rejected[source.name] = oracle_of(name).rejected(each.path, source.name)
    answers = oracle_answers(name, paths, params)
    return Sample(name, batches, columns, params, answers, rejected)
