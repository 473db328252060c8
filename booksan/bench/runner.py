"""`booksan bench SET`: who takes part, on which files; every contestant measured and compared."""

import importlib.util
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import booksan.bench
from booksan.bench.baseline import CORES, Baseline, Size
from booksan.bench.measure import (
    Measurement,
    Start,
    load_psutil,
    measure,
    memory_kind,
    nothing,
    three_hosts,
)
from booksan.bench.report import (
    Data,
    Difference,
    Report,
    Result,
    Twice,
    differences,
    machine,
    result_of,
    twice_of,
)
from booksan.datasets import dataset_named
from booksan.errors import UsageError
from booksan.generate.generator import generator_named
from booksan_common.names import nearest

# Who takes part: booksan itself and the baselines, each as a command of its own.

#: From the files of the sources, a result directory and `k=v` settings to a command.
Command = Callable[[Sequence[Path], Path, Sequence[str]], list[str]]

BOOKSAN = "booksan"
CLUSTER = "cluster"


@dataclass(frozen=True)
class Contestant:
    name: str
    title: str
    command: Command
    #: Modules that must be installed.
    needs: tuple[str, ...] = ()
    #: What must run before the clock does.
    service: Start = nothing
    #: Takes part only when it is named: it needs more than Python.
    on_demand: bool = False


def settings_arguments(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def scratch_of(out: Path) -> Path:
    """Where a contestant may keep its work: of its own, so that no earlier run is taken up."""
    return out.with_name(f"{out.name}-work")


def local(dataset: str) -> Contestant:
    def command(files: Sequence[Path], out: Path, settings: Sequence[str]) -> list[str]:
        places = ["--out", str(out), "--data-dir", str(scratch_of(out))]
        run = [sys.executable, "-m", "booksan", "run", dataset, *map(str, files), *places]
        return [*run, "--workers", str(CORES), "--json", *settings_arguments(settings)]

    return Contestant(BOOKSAN, "booksan", command)


def cluster(dataset: str) -> Contestant:
    def command(files: Sequence[Path], out: Path, settings: Sequence[str]) -> list[str]:
        run = [sys.executable, "-m", "booksan", "submit", dataset, *map(str, files)]
        return [*run, "--out", str(out), "--json", *settings_arguments(settings)]

    return Contestant(
        CLUSTER, "three hosts, RabbitMQ", command, service=three_hosts, on_demand=True
    )


def script(name: str, module: str, baseline: Baseline) -> Contestant:
    def command(files: Sequence[Path], out: Path, settings: Sequence[str]) -> list[str]:
        run = [sys.executable, "-m", module, *map(str, files), str(out)]
        return [*run, *settings_arguments(settings)]

    return Contestant(name, baseline.title, command, needs=baseline.needs)


def choose(contestants: Sequence[Contestant], only: Sequence[str]) -> list[Contestant]:
    """The named ones in their usual order, or all usual ones; every one must be able to run."""
    names = [contestant.name for contestant in contestants]
    for name in only:
        if name not in names:
            raise UsageError(f"no contestant is named {name!r}; {nearest(name, names)}")
    usual = [each.name for each in contestants if not each.on_demand]
    chosen = [each for each in contestants if each.name in (only or usual)]
    for contestant in chosen:
        _check_installed(contestant)
    return chosen


def _check_installed(contestant: Contestant) -> None:
    for module in contestant.needs:
        if importlib.util.find_spec(module) is None:
            raise UsageError(
                f"{contestant.title} needs {module}: pip install 'booksan[bench]',"
                f" or leave it out with --only"
            )


# The data sets that have a benchmark, and who takes part in it.
#
# A module `TOOL_SET` beside this one is the baseline of a data set with some tool; each data set
# has one with DuckDB, by which all contestants are measured.

YARDSTICK = "duckdb"


def benchmarks() -> list[str]:
    """The data sets by name. Imports none of their modules."""
    prefix = f"{YARDSTICK}_"
    return [name.removeprefix(prefix) for name in _modules() if name.startswith(prefix)]


def size_of(dataset: str) -> Size:
    found = _offer(f"{YARDSTICK}_{dataset}", "SIZE")
    assert isinstance(found, Size)
    return found


def contestants_of(dataset: str) -> tuple[Contestant, ...]:
    """booksan first, then the baselines by name."""
    suffix = f"_{dataset}"
    baselines = [_baseline(name, suffix) for name in _modules() if name.endswith(suffix)]
    return local(dataset), cluster(dataset), *baselines


def _baseline(module: str, suffix: str) -> Contestant:
    found = _offer(module, "BASELINE")
    assert isinstance(found, Baseline)
    return script(module.removesuffix(suffix), f"{booksan.bench.__name__}.{module}", found)


def _offer(module: str, name: str) -> object:
    return getattr(import_module(f"{booksan.bench.__name__}.{module}"), name)


def _modules() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(booksan.bench.__path__))


# The files that all contestants read: generated once, kept where the user says.

#: Bytes read at a time when the files are brought into the page cache.
BLOCK = 1 << 20


@dataclass(frozen=True)
class Files:
    paths: tuple[Path, ...]
    #: How many each has, by the name of its source.
    rows: Mapping[str, int]

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


def generated_files(directory: Path, dataset: str, rows: Mapping[str, int], *, seed: int) -> Files:
    """Generate the files, or find the ones that an earlier run left in the directory."""
    numbers = "-".join(f"{source}-{number}" for source, number in rows.items())
    home = directory / f"{numbers}-seed-{seed}"
    if not home.exists():
        _generate(home, dataset, *rows.values(), seed=seed)
    return Files(tuple(home / name for name in generator_named(dataset).files), rows)


def _generate(home: Path, dataset: str, first_rows: int, rows: int, *, seed: int) -> None:
    """Renamed into place when complete, so that an interrupted run leaves nothing half-done."""
    unfinished = home.with_name(f"{home.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    generator_named(dataset).generate(unfinished, rows=rows, first_rows=first_rows, seed=seed)
    unfinished.rename(home)


def warm_page_cache(files: Files) -> None:
    """Read all files once, so that the first contestant does not pay for the disk."""
    for path in files.paths:
        with path.open("rb") as file:
            while file.read(BLOCK):
                pass


# `booksan bench SET`: every contestant on the same files, measured, compared.

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
