"""Workers in bad circumstances: with output that never gets done, or with few open files."""

import os
import resource
import signal
from pathlib import Path

from booksan.stages.operator import Piece
from booksan.stages.operators import Tally
from booksan.worker import main

#: Open files that a worker may have in `run_with_few_files`.
FILES = 64

_final = Tally.final


def _stuck(operator: Tally, cursor: str | None) -> Piece:
    name = operator.place.spec.client
    if operator.place.stage == "q2-decades":
        if name.startswith("hangs"):
            while True:
                pass
        if name.startswith("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        if name.startswith("panics"):
            raise KeyboardInterrupt("what no handler catches")
    return _final(operator, cursor)


def run(data_dir: Path, stage: str, shard: int) -> int:
    setattr(Tally, "final", _stuck)  # noqa: B010 - a method is not to be assigned, to mypy
    return main.run(data_dir, stage, shard)


def run_with_few_files(data_dir: Path, stage: str, shard: int) -> int:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    return main.run(data_dir, stage, shard)
