"""Commands that leave hosts behind, and the certain end of all of them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support.command import PATIENCE, Ended, Place

TWO_HOSTS = """
name = "{name}"
datasets = ["books"]

[hosts.alpha]
id = 1
address = "127.0.0.1:7401"
gateway = "127.0.0.1:7301"

[hosts.alpha.stages]
q1-filter = [0]
q3-join = [0]
q5-sentiment = [0]
results = [0]

[hosts.beta]
id = 2
address = "127.0.0.1:7402"
gateway = "127.0.0.1:7302"

[hosts.beta.stages]
q2-decades = [0]
q4-top = [0]
q5-percentile = [0]
"""


@contextmanager
def place_for_hosts(root: Path) -> Iterator[Place]:
    """Whatever the commands left running is ended, also when a test fails."""
    place = Place(root)
    try:
        yield place
    finally:
        # Supervisors bring back what dies, so they go first; then all the rest.
        for _ in range(3):
            processes = place.processes()
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes, timeout=PATIENCE)


def command(place: Place, *words: str | Path, env: Mapping[str, str] | None = None) -> Ended:
    """Runs a command to its end; what it started may live on."""
    done = subprocess.run(
        [sys.executable, "-m", "booksan", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=place.environment(env),
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def two_hosts(root: Path, name: str = "two") -> Path:
    path = root / f"{name}.toml"
    path.write_text(TWO_HOSTS.format(name=name))
    return path


def read_json(path: Path) -> dict[str, Any]:
    """Empty before it is there."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    assert isinstance(found, dict)
    return found
