"""`booksan run books` as a process: start it, end it, look at what it says and leaves behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

#: Seconds that anything may take, with the machine under load.
PATIENCE = 90.0
Words = list[str | Path]
QUERIES = ("q1", "q2", "q3", "q4", "q5")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """What is said on stderr, which must be one line for the user."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("booksan: ")
        return lines[0].removeprefix("booksan: ")

    @property
    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True)
class Place:
    """Where a test keeps its inputs, its answers and the user's state directory."""

    root: Path

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def data(self) -> Path:
        """For `--data-dir`."""
        return self.root / "data"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        # The terminal of whoever runs the tests must not show in the results.
        kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "TERM")}
        return kept | {"XDG_STATE_HOME": str(self.state)} | dict(more or {})

    def leftovers(self) -> list[Path]:
        """Files in the state directory."""
        return [path for path in self.state.rglob("*") if not path.is_dir()]

    def processes(self) -> list[psutil.Process]:
        """The living processes of this test's commands: the environment gives them away."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def _owns(self, process: psutil.Process) -> bool:
        try:
            found = process.environ().get("XDG_STATE_HOME") == str(self.state)
            return bool(found and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def run(
        self,
        arguments: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> Ended:
        """Runs the command to its end; nothing of it may survive, and no traceback be seen."""
        with self.started(arguments, env, before) as process:
            return self.ended(process)

    @contextmanager
    def started(
        self,
        arguments: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> Iterator["subprocess.Popen[bytes]"]:
        command = [*before, sys.executable, "-m", "booksan", *map(str, arguments)]
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(env),
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def ended(self, process: "subprocess.Popen[bytes]") -> Ended:
        out, err = process.communicate(timeout=PATIENCE)
        ended = Ended(process.returncode, (out or b"").decode(), err.decode())
        assert "Traceback" not in ended.out + ended.err, ended.err
        wait_until(lambda: not self.processes())
        return ended


def wait_until(true: Callable[[], object], patience: float = PATIENCE) -> None:
    """Looks again and again until something is so."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def run_books(books: str | Path, reviews: str | Path, out: Path, *more: str | Path) -> Words:
    return ["run", "books", books, reviews, "--out", out, *more]


def settings(params: Mapping[str, object]) -> list[str]:
    return [word for name, value in params.items() for word in ("--set", f"{name}={value}")]
