"""Run one command and tell its wall time, CPU time and peak memory; and what runs beside it."""

import importlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from booksan.errors import BooksanError, RunFailed, UsageError

# What runs beside a measured command: a cluster that is started before the clock.


@dataclass(frozen=True)
class Service:
    """Processes that work for the command; their memory and time count as its own."""

    env: Mapping[str, str] = field(default_factory=dict)
    #: The roots of their trees.
    pids: tuple[int, ...] = ()
    #: Of a server that others have written: measured apart.
    beside: tuple[int, ...] = ()


#: Starts the service in a directory of its own, and ends it.
Start = Callable[[Path], AbstractContextManager[Service]]


@contextmanager
def nothing(place: Path) -> Iterator[Service]:
    yield Service()


@contextmanager
def three_hosts(place: Path) -> Iterator[Service]:
    """The topology `three` on a RabbitMQ of its own."""
    state = {"XDG_STATE_HOME": str(place)}
    _command(state, "up", "three", "--with-broker", "--any-ports")
    try:
        found = json.loads(_command(state, "status", "--json"))
        yield Service(
            env=state | {"BOOKSAN_SERVER": ",".join(found["gateways"])},
            pids=tuple(host["pid"] for host in found["hosts"]),
            beside=(found["broker"]["keeper"],),
        )
    finally:
        _command(state, "down", "--wipe")


def _command(env: Mapping[str, str], *words: str) -> str:
    done: subprocess.CompletedProcess[Any] = subprocess.run(
        [sys.executable, "-m", "booksan", "cluster", *words],
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BooksanError(f"booksan cluster {' '.join(words)}: {done.stderr.strip()}")
    return str(done.stdout)


# Run one command and tell its wall time, its CPU time and the peak memory of its process tree.

#: Seconds between two looks at the tree.
INTERVAL = 0.15
#: A look may take at most this part of the time: with many processes the interval grows.
SHARE = 0.05
#: Seconds that an unfinished command gets to end after SIGTERM.
PATIENCE = 10.0

ROLLUP = "smaps_rollup"


@dataclass(frozen=True)
class Measurement:
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    #: "PSS" counts a page shared by n processes as 1/n in each; "RSS" counts it n times.
    memory: str
    #: CPU seconds of the measuring itself.
    sampling_seconds: float
    #: Peak memory of a server beside it that is not ours, such as a broker.
    beside_bytes: int = 0


def memory_kind() -> str:
    return "PSS" if Path("/proc/self", ROLLUP).exists() else "RSS"


class MemorySampler:
    """Looks at processes and their descendants every now and then, from a thread."""

    def __init__(self, *pids: int, beside: Sequence[int] = (), interval: float = INTERVAL) -> None:
        self.peak_bytes = 0
        self.beside_bytes = 0
        self.kind = memory_kind()
        self.cpu_seconds = 0.0
        self._psutil = load_psutil()
        self._pids = pids
        self._beside = beside
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-sampler", daemon=True)

    def __enter__(self) -> "MemorySampler":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        wait = 0.0
        while not self._done.wait(wait):
            before = time.thread_time()
            self.peak_bytes = max(self.peak_bytes, self._look(self._pids))
            self.beside_bytes = max(self.beside_bytes, self._look(self._beside))
            spent = time.thread_time() - before
            self.cpu_seconds += spent
            wait = max(self._interval, spent / SHARE)

    def _look(self, pids: Sequence[int]) -> int:
        return sum(self._bytes_of(process) for pid in pids for process in tree_of(pid))

    def _bytes_of(self, process: Any) -> int:
        try:
            if self.kind == "PSS":
                return pss_bytes(process.pid)
            return int(process.memory_info().rss)
        except (self._psutil.NoSuchProcess, OSError):
            return 0


def load_psutil() -> Any:
    try:
        return importlib.import_module("psutil")
    except ImportError:
        raise UsageError(
            "the benchmark needs psutil to measure memory: pip install 'booksan[bench]'"
        ) from None


def tree_of(pid: int) -> list[Any]:
    """The process and its descendants; nothing if it has ended."""
    psutil = load_psutil()
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def pss_bytes(pid: int) -> int:
    """A process that has just ended has no lines left, and counts as nothing."""
    for line in Path("/proc", str(pid), ROLLUP).read_bytes().splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(command: Sequence[str], log: Path, service: Service | None = None) -> Measurement:
    """Run the command to its end; its output goes to the log. Raise RunFailed if it fails."""
    service = service or Service()
    cpu_before = _cpu_of_children() + _cpu_of_trees(service.pids)
    with log.open("wb") as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | service.env,
        )
        try:
            with MemorySampler(process.pid, *service.pids, beside=service.beside) as sampler:
                code = process.wait()
                seconds = time.perf_counter() - begin
        finally:
            _end(process)
    if code != 0:
        raise RunFailed(f"{' '.join(command)} ended with code {code}:\n{_tail(log)}")
    cpu = _cpu_of_children() + _cpu_of_trees(service.pids) - cpu_before
    return Measurement(
        seconds,
        cpu,
        sampler.peak_bytes,
        sampler.kind,
        sampler.cpu_seconds,
        sampler.beside_bytes,
    )


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _cpu_of_trees(pids: Sequence[int]) -> float:
    """Of processes that go on living; those that ended on the way are not counted."""
    times = [process.cpu_times() for pid in pids for process in tree_of(pid)]
    return float(sum(each.user + each.system for each in times))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing running when the user interrupts the benchmark."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path, lines: int = 20) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])
