"""What a host must not forget: the latest term that it knew, and the number of its life."""

import json
import time
from pathlib import Path
from typing import NamedTuple

from booksan.errors import StateError
from booksan.files import write_atomically
from booksan.supervisor.election.messages import NO_TERM, Term

ELECTION_FILE = "election.json"


class Remembered(NamedTuple):
    term: Term
    boot: int


class Memory:
    """The file in the host's data directory. Its caller holds the lock on the directory."""

    def __init__(self, data_dir: Path) -> None:
        """Begin a new life: read what was, and count one up, durably."""
        self._path = data_dir / ELECTION_FILE
        term, boot = _read(self._path)
        # By the clock, so that a host whose disk was lost still begins a later life.
        self.boot = max(boot + 1, time.time_ns() // 1_000_000)
        self.term = term
        self.persist(term)

    def persist(self, term: Term) -> None:
        """Durable when it returns; OSError when it could not be."""
        text = json.dumps({"counter": term.counter, "host": term.host, "boot": self.boot})
        write_atomically(self._path, f"{text}\n".encode())
        self.term = term


def _read(path: Path) -> Remembered:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        numbers = [found[key] for key in ("counter", "host", "boot")]
    except FileNotFoundError:
        return Remembered(NO_TERM, 0)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise _damaged(path)
    counter, host, boot = numbers
    return Remembered(Term(counter, host), boot)


def _damaged(path: Path) -> StateError:
    return StateError(
        f"{path} is not what the election wrote there. Without it this host could lead twice in "
        "one term: restore it, or delete it while no other host of the cluster runs."
    )
