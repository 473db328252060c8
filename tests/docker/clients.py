"""A client that sends its files again and again, as a new run each time."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from booksan.generate.books import generate_books
from tests.docker.project import PATIENCE, Project

QUERIES = ("q1", "q2", "q3", "q4", "q5")
SETTINGS = ("--set", "q2.decades=3", "--set", "q3.min_reviews=5", "--set", "q5.percentile=70")


@dataclass
class Client:
    root: Path
    project: Project
    files: tuple[Path, ...]
    expected: dict[str, bytes]
    runs: int = 0
    problems: list[str] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    @classmethod
    def make(cls, root: Path, project: Project, seed: int, reviews: int) -> "Client":
        """What `booksan run` answers is what must come back."""
        root.mkdir()
        files = generate_books(root, books=300, reviews=reviews, seed=seed, dirty=True).paths
        made = cls(root, project, files, {})
        done = made._command("run", "expected")
        assert done.returncode == 0, done.stderr
        made.expected = made._found("expected")
        return made

    @property
    def is_sending(self) -> bool:
        """A part of the reviews has been taken, and the answers are not there: what a client
        knows of a run is forgotten with its end."""
        try:
            journals = self.root.glob("state/booksan/clients/*/reviews.journal")
            return any(b'"taken"' in path.read_bytes() for path in journals)
        except FileNotFoundError:
            return False

    def start(self) -> None:
        self.runs, self.problems = 0, []
        self.enough.clear()
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def finish(self) -> None:
        """Ends after the run that it is at."""
        self.enough.set()
        assert self.thread is not None
        self.thread.join(2 * PATIENCE)
        assert not self.thread.is_alive()

    def submit(self) -> None:
        self.runs += 1
        out = f"out-{time.monotonic_ns()}"
        done = self._command("submit", out, "--new")
        if done.returncode != 0:
            self.problems.append(f"run {self.runs} ended with {done.returncode}: {done.stderr}")
        elif self._found(out) != self.expected:
            self.problems.append(f"run {self.runs} has other answers")

    def _work(self) -> None:
        while not self.enough.is_set() and not self.problems:
            self.submit()

    def _command(self, what: str, out: str, *more: str) -> "subprocess.CompletedProcess[str]":
        env = self.project.environment | {
            "XDG_STATE_HOME": str(self.root / "state"),
            "BOOKSAN_SERVER": self.project.servers,
        }
        words = [what, "books", *map(str, self.files), "--out", str(self.root / out), *SETTINGS]
        return subprocess.run(
            [sys.executable, "-m", "booksan", *words, *more, "--json"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )

    def _found(self, out: str) -> dict[str, bytes]:
        return {name: (self.root / out / f"{name}.csv").read_bytes() for name in QUERIES}


@contextmanager
def at_work(clients: Sequence[Client], *, once: bool = False) -> Iterator[None]:
    """They send while something happens, at least one run each, and get the right answers."""
    for client in clients:
        client.start()
        if once:
            client.enough.set()
    try:
        yield
    finally:
        for client in clients:
            client.finish()
    assert [client.problems for client in clients] == [[]] * len(clients)
    assert all(client.runs == 1 if once else client.runs >= 1 for client in clients)
    print(f"\n    {sum(client.runs for client in clients)} runs, all with the same answers")
