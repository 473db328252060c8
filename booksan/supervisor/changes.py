"""Changes of host.json under a running supervisor: other hosts have come, or are elsewhere now.

Only whom the host knows may change: its company, and what its gateway reads. Its workers may not.
"""

from pathlib import Path

from booksan.errors import UsageError
from booksan.supervisor.config import HOST_FILE, HostConfig, read_config
from booksan.supervisor.logs import log

#: Seconds between two looks: somebody who has just come is not heard for that long.
LOOK = 1.0
#: Seconds until what could not be done, such as listening on a port that is taken, is tried again.
RETRY = 5.0
#: What the gateway reads; whoever changes it writes host.json after it.
_GATEWAY_FILE = "gateway.json"

_Stamp = tuple[int, int] | None


class Changes:
    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._seen = self._stamp(HOST_FILE)
        self._gateway = self._stamp(_GATEWAY_FILE)
        self.due = 0.0

    def look(self, now: float) -> HostConfig | None:
        """The configuration, if it was written anew."""
        if now < self.due:
            return None
        self.due = now + LOOK
        stamp = self._stamp(HOST_FILE)
        if stamp is None or stamp == self._seen:
            return None
        self._seen = stamp
        try:
            return read_config(self._data_dir)
        except UsageError as error:
            log("host", f"stays as it is: {error}")
            return None

    def again(self, now: float) -> None:
        """What was read could not be done: read it once more, later."""
        self._seen, self.due = None, now + RETRY

    def gateway_changed(self) -> bool:
        """Since the last time that this was asked."""
        before, self._gateway = self._gateway, self._stamp(_GATEWAY_FILE)
        return before != self._gateway

    def _stamp(self, name: str) -> _Stamp:
        try:
            found = (self._data_dir / name).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns
