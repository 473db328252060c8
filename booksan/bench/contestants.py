"""Who takes part: booksan itself and the baselines, each as a command of its own."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from booksan.bench.baseline import CORES, Baseline
from booksan.bench.service import Start, nothing, three_hosts
from booksan.errors import UsageError

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
            raise UsageError(f"no contestant is named {name!r}; there are {', '.join(names)}")
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
