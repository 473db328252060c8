"""What host-status.json tells: the host and its workers as they are now."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from booksan.supervisor.states import HostState, WorkerState

STATUS_FILE = "host-status.json"


@dataclass(frozen=True)
class WorkerStatus:
    name: str
    pid: int | None
    state: WorkerState
    restarts: int
    #: When it came into this state, in seconds since 1970.
    since: float
    #: Bytes in memory and seconds of processor time, at the last look.
    memory: int | None = None
    cpu: float | None = None


@dataclass(frozen=True)
class HostStatus:
    pid: int
    state: HostState
    #: Of all workers together.
    restarts: int
    workers: tuple[WorkerStatus, ...]
    error: str | None = None
    #: The exit code of a host that has failed.
    code: int | None = None
    #: Who leads the hosts, and in which term, as far as this one knows.
    leader: str | None = None
    term: str | None = None


def write_status(data_dir: Path, status: HostStatus) -> None:
    write_json(data_dir / STATUS_FILE, asdict(status))


def read_status(data_dir: Path) -> HostStatus | None:
    """Read the last report; None when there is none that can be read.

    A host that was killed cannot say so: the report of a dead process stays as it was.
    """
    try:
        return parse_status((data_dir / STATUS_FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def parse_status(text: str) -> HostStatus | None:
    try:
        found = json.loads(text)
        workers = tuple(_worker(item) for item in found["workers"])
        state = HostState(found["state"])
        return HostStatus(
            found["pid"],
            state,
            found["restarts"],
            workers,
            found["error"],
            found.get("code"),
            found.get("leader"),
            found.get("term"),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _worker(found: dict[str, Any]) -> WorkerStatus:
    state = WorkerState(found["state"])
    return WorkerStatus(
        found["name"],
        found["pid"],
        state,
        found["restarts"],
        found["since"],
        found.get("memory"),
        found.get("cpu"),
    )


def write_json(path: Path, value: object) -> None:
    """Replace the file at once: a reader sees the old text or the new one, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)
