"""Everything but the answers that can end a run or that its user should hear of."""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from booksan.errors import BooksanError, NoSpace, RunFailed
from booksan.home import HomeStatus, HomeView
from booksan.inspection import StreamProgress, missing_numbers, progress
from booksan.spec import Spec
from booksan.supervisor.handle import Host
from booksan.supervisor.states import HostState

#: Seconds between two looks at things that change rarely: the host, the disk, the clock.
SLOW_LOOK = 0.5
#: Bytes that must be free; below, SQLite and the queues cannot go on.
MIN_FREE = 4 * 1024 * 1024
#: Seconds without any movement after which the run is called stalled.
STALL = 120.0


def check_disk(root: Path) -> None:
    if shutil.disk_usage(root).free < MIN_FREE:
        raise NoSpace(
            f"no space left where {root} is; make room, or name another --data-dir; "
            "then the same command goes on where it was"
        )


class Watch:
    """Looks at the host, the disk and the clock now and then, and for stalls."""

    def __init__(
        self, root: Path, spec: Spec, host: Host, view: HomeView, note: Callable[[str], None]
    ) -> None:
        self.root = root
        self.spec = spec
        self.host = host
        self.view = view
        self.note = note
        #: Restarts that supervisors killed since took with them.
        self._earlier_restarts = 0
        self._next_look = 0.0
        #: When the home or, once that is quiet, any stage was last seen to move, and how.
        self._last_movement: tuple[float, tuple[HomeStatus, tuple[StreamProgress, ...]] | None]
        self._last_movement = (time.monotonic(), None)

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
            if self.spec.expires <= time.time() or self.view.how_gone():
                raise RunFailed("the run has expired; the same command begins a new one")

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

    def look_for_stall(self, status: HomeStatus) -> None:
        moment, seen = self._last_movement
        if seen is None or seen[0] != status:
            self._last_movement = (time.monotonic(), (status, ()))
        elif time.monotonic() - moment > STALL:
            # The home is quiet while a long backlog is worked off; only all together are stalled.
            streams = tuple(progress(self.root, self.spec.client))
            self._last_movement = (time.monotonic(), (status, streams))
            if streams == seen[1]:
                self._tell_stall(streams)

    def _tell_stall(self, streams: Sequence[StreamProgress]) -> None:
        for stream in streams:
            if not stream.complete:
                self.note(
                    f"nothing has moved for {STALL:.0f} s: {stream.stage}.{stream.shard} has "
                    f"{stream.batches} of {stream.of_batches} batches of {stream.sender}, "
                    f"missing {missing_numbers(self.root, stream)}"
                )
