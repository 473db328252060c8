"""Whether a supervisor is at work, told and asked without a datagram.

Its loop touches the report of the host again and again. Whoever wants to know waits for the next
touch: no clock is compared, and a loop that stands still is noticed whatever its process says.

`python -m booksan.membership.liveness` asks for the supervisor that is process 1 of a container.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from booksan.host.status import STATUS_FILE, supervisor_pid

#: Seconds from one touch to the next: as often as the loop turns for the election anyway.
BEAT = 0.5
#: Seconds without a touch after which the loop stands still. Six beats: the machine may be busy.
STILL = 3.0
_LOOK_AGAIN = 0.05
_PROCESS_1 = Path("/proc/1/cmdline")


class Heartbeat:
    """The side of the supervisor."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / STATUS_FILE
        self._due = 0.0

    def beat(self, now: float) -> None:
        """Touch the report, if it is time to."""
        if now < self._due:
            return
        self._due = now + BEAT
        # A report that cannot be written for want of room is tried again by the loop.
        with suppress(FileNotFoundError):
            os.utime(self._path)


def is_at_work(data_dir: Path, seconds: float = STILL) -> bool:
    """Somebody holds the lock of the directory, and its loop moves within this time."""
    if supervisor_pid(data_dir) is None:
        return False
    before = _touched(data_dir)
    deadline = time.monotonic() + seconds
    while _touched(data_dir) == before:
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN)
    return supervisor_pid(data_dir) is not None


def _touched(data_dir: Path) -> int | None:
    try:
        return (data_dir / STATUS_FILE).stat().st_mtime_ns
    except FileNotFoundError:
        return None


def main() -> int:
    words = _PROCESS_1.read_bytes().rstrip(b"\0").split(b"\0")
    if b"booksan.supervisor" not in words[:-1]:
        return 1
    return 0 if is_at_work(Path(os.fsdecode(words[-1]))) else 1


if __name__ == "__main__":
    sys.exit(main())
