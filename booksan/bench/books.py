"""`booksan bench books`: every contestant on the same files, measured, compared."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from booksan.bench.agreement import Difference, differences
from booksan.bench.contestants import (
    BOOKSAN,
    CLUSTER,
    CONTESTANTS,
    DUCKDB,
    Contestant,
    choose,
    scratch_of,
)
from booksan.bench.data import BookFiles, book_files, warm_page_cache
from booksan.bench.measure import Measurement, load_psutil, measure, memory_kind
from booksan.bench.report import Data, Report, Result, Twice, machine, result_of, twice_of
from booksan.errors import UsageError

Progress = Callable[[str], None]

#: Reviews for each book, as in the public data set (3,000,000 of 212,404, rounded).
REVIEWS_PER_BOOK = 12


@dataclass(frozen=True)
class BenchOptions:
    reviews: int = 300_000
    books: int | None = None
    seed: int = 1
    repeat: int = 1
    #: Generated files and answers are kept here; without it they go when the benchmark ends.
    data: Path | None = None
    only: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    twice: bool = False

    @property
    def book_rows(self) -> int:
        return self.books if self.books is not None else max(1, self.reviews // REVIEWS_PER_BOOK)


@dataclass(frozen=True)
class Run:
    contestant: Contestant
    out: Path
    measured: Measurement


def _silent(message: str) -> None:
    del message


def bench_books(
    options: BenchOptions,
    *,
    contestants: Sequence[Contestant] = CONTESTANTS,
    progress: Progress = _silent,
) -> Report:
    chosen = choose(contestants, options.only)
    _check(options, chosen)
    with _workplace(options.data) as place:
        files = _files(place, options, options.reviews, progress)
        data = Data(options.book_rows, options.reviews, options.seed, files.bytes)
        warm_page_cache(files)
        runs = [
            _run(contestant, files, place / "answers", number, options.settings, progress)
            for number in range(1, options.repeat + 1)
            for contestant in (chosen if number % 2 else reversed(chosen))
        ]
        twice = _twice(place, options, runs, progress) if options.twice else None
        return _report(data, chosen, runs, twice)


def _check(options: BenchOptions, chosen: Sequence[Contestant]) -> None:
    load_psutil()
    if options.reviews < 1 or options.book_rows < 1 or options.repeat < 1:
        raise UsageError("--reviews, --books and --repeat must be at least 1")
    if options.twice and not _ours(chosen):
        raise UsageError("--twice measures booksan: add booksan or cluster to --only")


def _ours(chosen: Sequence[Contestant]) -> list[Contestant]:
    return [each for each in chosen if each.name in (BOOKSAN.name, CLUSTER.name)]


@contextmanager
def _workplace(data: Path | None) -> Iterator[Path]:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="booksan-bench-") as name:
        yield Path(name)


def _files(place: Path, options: BenchOptions, reviews: int, progress: Progress) -> BookFiles:
    progress(f"{options.book_rows:,} books and {reviews:,} reviews, seed {options.seed}")
    return book_files(place, books=options.book_rows, reviews=reviews, seed=options.seed)


def _run(
    contestant: Contestant,
    files: BookFiles,
    answers: Path,
    number: int,
    settings: Sequence[str],
    progress: Progress,
) -> Run:
    progress(f"{contestant.title}, run {number}")
    out = answers / f"{contestant.name}-{number}"
    answers.mkdir(parents=True, exist_ok=True)
    for leftover in (out, scratch_of(out)):
        shutil.rmtree(leftover, ignore_errors=True)
    command = contestant.command(files.books, files.reviews, out, settings)
    with contestant.service(scratch_of(out)) as service:
        measured = measure(command, answers / f"{out.name}.log", service)
    shutil.rmtree(scratch_of(out), ignore_errors=True)
    return Run(contestant, out, measured)


def _twice(place: Path, options: BenchOptions, runs: Sequence[Run], progress: Progress) -> Twice:
    """The books stay the same: memory must not grow with the reviews."""
    contestant = _ours([run.contestant for run in runs])[0]
    reviews = 2 * options.reviews
    files = _files(place, options, reviews, progress)
    warm_page_cache(files)
    run = _run(contestant, files, place / "answers-twice", 1, options.settings, progress)
    return twice_of(reviews, run.measured, _measured(runs, contestant))


def _report(
    data: Data, chosen: Sequence[Contestant], runs: Sequence[Run], twice: Twice | None
) -> Report:
    names = [contestant.name for contestant in chosen]
    yardstick = DUCKDB.name if DUCKDB.name in names else None
    reference = next(run for run in runs if run.contestant.name == (yardstick or names[0]))
    found = _disagreements(runs, reference)
    return Report(
        data=data,
        machine=machine(),
        memory=memory_kind(),
        yardstick=yardstick,
        reference=reference.contestant.name,
        results=tuple(_result(each, runs, data, yardstick, found) for each in chosen),
        differences=tuple(found),
        twice=twice,
    )


def _disagreements(runs: Sequence[Run], reference: Run) -> list[Difference]:
    """Every run is compared, so that a contestant that contradicts itself is noticed too."""
    return [
        difference
        for run in runs
        for difference in differences(
            run.contestant.name, run.out, reference.contestant.name, reference.out
        )
    ]


def _result(
    contestant: Contestant,
    runs: Sequence[Run],
    data: Data,
    yardstick: str | None,
    found: Sequence[Difference],
) -> Result:
    against = [run.measured for run in runs if run.contestant.name == yardstick]
    return result_of(
        contestant.name,
        contestant.title,
        _measured(runs, contestant),
        data=data,
        yardstick=against or None,
        agrees=all(difference.contestant != contestant.name for difference in found),
    )


def _measured(runs: Sequence[Run], contestant: Contestant) -> list[Measurement]:
    return [run.measured for run in runs if run.contestant.name == contestant.name]
