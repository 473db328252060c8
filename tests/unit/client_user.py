"""Somebody who uses the client, with two small files and a pretended gateway."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from booksan_client.cli import app
from tests.unit.fake_gateway import ANSWER, Answer, FakeGateway, Run, Seen, error

PATIENCE = 60.0
EGGS = 40


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        assert found["exit_code"] == self.code
        return found


class User:
    """Somebody with two files, a server, and a state directory."""

    def __init__(self, root: Path, gateway: FakeGateway) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.gateway = gateway
        self.out = root / "out"
        self.state = root / "state"
        self.nests, self.eggs = root / "nests.csv", root / "eggs.csv"
        self.nests.write_text("Name\nheron\nwren\n")
        lines = "".join(f"{name},{number}\n" for number in range(EGGS) for name in ("wren",))
        self.eggs.write_text("Nest,Size\n" + lines)
        self.env = {"XDG_STATE_HOME": str(self.state), "BOOKSAN_SERVER": gateway.url}

    @property
    def submission(self) -> list[str]:
        files = [str(self.nests), str(self.eggs)]
        return ["submit", "birds", *files, "--out", str(self.out), "--batch-bytes", "20"]

    def submit(self, *more: str) -> Ended:
        return self.call(*self.submission, *more)

    def call(self, *words: str) -> Ended:
        handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            result = CliRunner().invoke(app, list(words), env=self.env)
        finally:
            for each, handler in handlers.items():
                signal.signal(each, handler)
        assert isinstance(result.exception, SystemExit | None), result.exception
        assert "Traceback" not in result.output
        return Ended(result.exit_code, result.stdout, result.stderr)

    def process(self, *more: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "booksan_client", *self.submission, *more]
        return subprocess.Popen(
            command,
            env=os.environ | self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def leftovers(self) -> list[Path]:
        return [path for path in self.state.rglob("*") if not path.is_dir()]

    @property
    def run(self) -> Run:
        (run,) = self.gateway.runs.values()
        return run

    @property
    def id(self) -> str:
        (id,) = self.gateway.runs
        return id

    def check_answers(self) -> None:
        assert (self.out / "q1.csv").read_bytes() == ANSWER
        sent = b"".join(data for _, data in sorted(self.run.batches["eggs"].items()))
        assert sent == self.eggs.read_bytes().partition(b"\n")[2]


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


class Gate:
    """Lets so many batches of eggs through; those after wait until it is opened."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.waiting = 0
        self.opened = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Answer | None:
        if seen.method == "PUT" and "/eggs/" in seen.path:
            with self._lock:
                self.left -= 1
                held = self.left < 0
                self.waiting += held
            if held and not self.opened.wait(PATIENCE):
                return error(503)
        return None
