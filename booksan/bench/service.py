"""What runs beside a measured command: a cluster that is started before the clock."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from booksan.errors import BooksanError


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
