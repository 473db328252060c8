"""`booksan bench SET`: every contestant on the same files, measured, compared."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from booksan.bench.agreement import Difference, differences
from booksan.bench.contestants import BOOKSAN, CLUSTER, Contestant, choose, scratch_of
from booksan.bench.data import Files, generated_files, warm_page_cache
from booksan.bench.measure import Measurement, load_psutil, measure, memory_kind
from booksan.bench.registry import YARDSTICK, contestants_of, size_of
from booksan.bench.report import Data, Report, Result, Twice, machine, result_of, twice_of
from booksan.errors import UsageError
from booksan.stages.datasets import dataset_named

Progress = Callable[[str], None]


@dataclass(frozen=True)
class BenchOptions:
    dataset: str
    #: Of the second source, and of the first; by default what the data set's baseline says.
    rows: int | None = None
    first_rows: int | None = None
    seed: int = 1
    repeat: int = 1
    #: Generated files and answers are kept here; without it they go when the benchmark ends.
    data: Path | None = None
    only: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    twice: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of the first source and of the second."""
        size = size_of(self.dataset)
        rows = size.rows if self.rows is None else self.rows
        return size.first_rows(rows) if self.first_rows is None else self.first_rows, rows


@dataclass(frozen=True)
class Run:
    contestant: Contestant
    out: Path
    measured: Measurement


def _silent(message: str) -> None:
    del message


def bench(
    options: BenchOptions,
    *,
    contestants: Sequence[Contestant] | None = None,
    progress: Progress = _silent,
) -> Report:
    every = contestants_of(options.dataset) if contestants is None else contestants
    chosen = choose(every, options.only)
    _check(options, chosen)
    with _workplace(options.data) as place:
        files = _files(place, options, progress)
        warm_page_cache(files)
        runs = [
            _run(contestant, files, place / "answers", number, options.settings, progress)
            for number in range(1, options.repeat + 1)
            for contestant in (chosen if number % 2 else reversed(chosen))
        ]
        twice = _twice(place, options, runs, progress) if options.twice else None
        data = Data(options.dataset, files.rows, options.seed, files.bytes)
        return _report(data, chosen, runs, twice)


def _check(options: BenchOptions, chosen: Sequence[Contestant]) -> None:
    load_psutil()
    if min(*options.sizes, options.repeat) < 1:
        raise UsageError("numbers of rows and --repeat must be at least 1")
    if options.twice and not _ours(chosen):
        raise UsageError("--twice measures booksan: add booksan or cluster to --only")


def _ours(chosen: Sequence[Contestant]) -> list[Contestant]:
    return [each for each in chosen if each.name in (BOOKSAN, CLUSTER)]


@contextmanager
def _workplace(data: Path | None) -> Iterator[Path]:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="booksan-bench-") as name:
        yield Path(name)


def _files(place: Path, options: BenchOptions, progress: Progress) -> Files:
    sources = (source.name for source in dataset_named(options.dataset).sources)
    rows = dict(zip(sources, options.sizes, strict=True))
    numbers = " and ".join(f"{number:,} {source}" for source, number in rows.items())
    progress(f"{numbers}, seed {options.seed}")
    return generated_files(place, options.dataset, rows, seed=options.seed)


def _run(
    contestant: Contestant,
    files: Files,
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
    command = contestant.command(files.paths, out, settings)
    with contestant.service(scratch_of(out)) as service:
        measured = measure(command, answers / f"{out.name}.log", service)
    shutil.rmtree(scratch_of(out), ignore_errors=True)
    return Run(contestant, out, measured)


def _twice(place: Path, options: BenchOptions, runs: Sequence[Run], progress: Progress) -> Twice:
    """The first source stays the same: memory must not grow with the second."""
    contestant = _ours([run.contestant for run in runs])[0]
    first_rows, rows = options.sizes
    files = _files(place, replace(options, first_rows=first_rows, rows=2 * rows), progress)
    warm_page_cache(files)
    run = _run(contestant, files, place / "answers-twice", 1, options.settings, progress)
    return twice_of(2 * rows, run.measured, _measured(runs, contestant))


def _report(
    data: Data, chosen: Sequence[Contestant], runs: Sequence[Run], twice: Twice | None
) -> Report:
    names = [contestant.name for contestant in chosen]
    yardstick = YARDSTICK if YARDSTICK in names else None
    reference = next(run for run in runs if run.contestant.name == (yardstick or names[0]))
    found = _disagreements(data.dataset, runs, reference)
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


def _disagreements(dataset: str, runs: Sequence[Run], reference: Run) -> list[Difference]:
    """Every run is compared, so that a contestant that contradicts itself is noticed too."""
    queries = [query.name for query in dataset_named(dataset).queries]
    name, truth = reference.contestant.name, reference.out
    return [
        difference
        for run in runs
        for difference in differences(queries, run.contestant.name, run.out, name, truth)
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
