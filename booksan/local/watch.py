"""Everything but the server's answers that can end a run or that its user should hear of."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from booksan.errors import BooksanError, NoSpace, RunFailed
from booksan.supervisor.handle import Host
from booksan.supervisor.states import HostState

#: Seconds between two looks at things that change rarely: the host, the disk, the clock.
SLOW_LOOK = 0.5
#: Bytes that must be free; below, SQLite and the queues cannot go on.
MIN_FREE = 4 * 1024 * 1024


def no_space(root: Path) -> NoSpace:
    return NoSpace(
        f"no space left where {root} is; make room, or name another --data-dir; "
        "then the same command goes on where it was"
    )


def check_disk(root: Path) -> None:
    if shutil.disk_usage(root).free < MIN_FREE:
        raise no_space(root)


def expired() -> RunFailed:
    return RunFailed("the run has expired; the same command begins a new one")


class Watch:
    """Looks at the host, the disk and the clock now and then."""

    def __init__(self, root: Path, host: Host, expires: int, note: Callable[[str], None]) -> None:
        self.root = root
        self.host = host
        self.expires = expires
        self.note = note
        #: Restarts that supervisors killed since took with them.
        self._earlier_restarts = 0
        self._next_look = 0.0

    @property
    def restarts(self) -> int:
        status = self.host.status()
        return self._earlier_restarts + (status.restarts if status else 0)

    def look(self) -> None:
        """Raises if the run cannot go on."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + SLOW_LOOK
            self.look_at_host()
            check_disk(self.root)
            if self.expires <= time.time():
                raise expired()

    def look_at_host(self) -> None:
        """A killed supervisor is started again; one that gave up says why."""
        code = self.host.poll()
        if code is None:
            return
        status = self.host.status()
        if code < 0:
            self._earlier_restarts += 1 + (status.restarts if status else 0)
            self.note("the supervisor was killed; starting it again")
            self.host.restart()
            return
        cause = status.error if status and status.state is HostState.FAILED else None
        cause = cause or f"the supervisor ended with code {code}"
        raise BooksanError(f"{cause}; the logs are in {self.root / 'logs'}")
