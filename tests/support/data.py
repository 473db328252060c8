"""Small data for the simulation, its batches, and what the oracle says of it."""

import functools
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from booksan.answers import csv_chunks
from booksan.datasets import dataset_named
from booksan.generate.books import generate_books
from booksan.spec import Spec
from booksan_common.cutter import Cutter, open_source, read_header
from booksan_common.params import ParamValue
from tests.oracle import books as oracle

BOOKS = dataset_named("books")

PARAMS: dict[str, ParamValue] = BOOKS.defaults | {
    "q1.category": "Fiction",
    "q1.from_year": 1900,
    "q1.word": "e",
    "q2.decades": 2,
    "q3.min_reviews": 1,
    "q3.from_year": 1960,
    "q4.top": 5,
    "q5.percentile": 50.0,
}


@dataclass(frozen=True)
class Sample:
    dataset: str
    batches: dict[str, tuple[bytes, ...]]
    columns: dict[str, tuple[str, ...]]
    params: dict[str, ParamValue]
    answers: dict[str, bytes]
    rejected: dict[str, list[int]]

    def spec(self, client: str, shards: dict[str, int]) -> Spec:
        version = dataset_named(self.dataset).version
        return Spec(client, self.dataset, version, self.params, self.columns, shards, 2**40)


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    return b"".join(csv_chunks(header, rows))


def shards_of(name: str, keyed: int, single: int = 1) -> dict[str, int]:
    return {stage.name: keyed if stage.keyed else single for stage in dataset_named(name).stages}


def shards(keyed: int, single: int = 1) -> dict[str, int]:
    return shards_of(BOOKS.name, keyed, single)


@functools.cache
def sample(
    seed: int,
    books: int = 40,
    reviews: int = 60,
    dirty: bool = False,
    batch_bytes: int = 12_000,
) -> Sample:
    with tempfile.TemporaryDirectory() as directory:
        made = generate_books(Path(directory), books=books, reviews=reviews, seed=seed, dirty=dirty)
        paths = dict(zip(("books", "reviews"), made.paths, strict=True))
        batches, columns = {}, {}
        for name, path in paths.items():
            with open_source(path) as stream:
                header = read_header(stream)
            with open_source(path) as stream:
                stream.seek(header.end)
                cutter = Cutter(stream, header.end, batch_bytes=batch_bytes)
                batches[name] = tuple(batch.data for batch in cutter)
            columns[name] = header.names
        return Sample(
            BOOKS.name,
            batches,
            columns,
            PARAMS,
            oracle.answers(paths["books"], paths["reviews"], PARAMS),
            {
                "books": oracle.rejected(paths["books"], "books"),
                "reviews": oracle.rejected(paths["reviews"], "reviews"),
            },
        )
