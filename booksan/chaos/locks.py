"""Who holds a lock on a file, as the kernel tells."""

import os
from collections.abc import Mapping
from pathlib import Path

from booksan.cluster.processes import ProcessId, identify

_LOCKS = Path("/proc/locks")
#: 1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF; one that waits has an arrow before its kind.
_KIND, _PID, _PLACE = 1, 4, 5


class Locks:
    """All flocks of this machine at one moment; empty on systems that do not tell them."""

    def __init__(self, holders: Mapping[str, int] | None) -> None:
        self._holders = holders

    @classmethod
    def now(cls) -> "Locks":
        try:
            lines = [line.split() for line in _LOCKS.read_text().splitlines()]
        except OSError:
            return cls(None)
        return cls({words[_PLACE]: int(words[_PID]) for words in lines if words[_KIND] == "FLOCK"})

    @property
    def told(self) -> bool:
        return self._holders is not None

    def holder(self, path: Path) -> ProcessId | None:
        """The process that has locked the file."""
        try:
            found = path.stat()
        except OSError:
            return None
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        pid = (self._holders or {}).get(place)
        return identify(pid) if pid else None
