"""The time by which runs expire: the wall clock's, unless that has just jumped.

Wall time is compared with the steady time since the machine started. When the two come apart, the
wall clock was set: by a person, by a bad time server, or rightly after it had been wrong. Nobody
can tell which, so the time goes on as it was until the new one has lasted for an hour. What was
believed is kept in the host's data directory, so that a process which starts in between believes
the same.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

#: Seconds by which a wall clock may be set without doubt: time servers correct more often than this
#: but by less.
JUMP = 60.0
#: Seconds for which a wall clock must go on steadily after a jump before it is believed.
CONFIRMED_AFTER = 3600.0
FILE = "clock.json"


def steady() -> float:
    """Seconds since the machine started, its sleep included."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_id() -> str:
    """Another one after each start of the machine; empty where nothing tells it."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


class Clock:
    """Call `now` at least every few minutes: a jump is seen between two calls."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = steady,
        boot: str | None = None,
    ) -> None:
        """`directory`: of the host, where what is believed outlives a process."""
        self._path = directory / FILE if directory else None
        self._wall = wall
        #: Seconds that no clock can change.
        self.steady = steady
        self._boot = boot_id() if boot is None else boot
        #: Wall time minus steady time, as it is believed and as it was last seen.
        self._believed = self._seen = wall() - steady()
        #: Steady time since when the wall clock has gone on without a jump.
        self._since = steady()
        #: Nothing tells whether the clock was set while the machine was off.
        self._doubtful = False
        self._load()

    def now(self) -> float:
        """Wall time as it is believed."""
        moment = self.steady()
        difference = self._wall() - moment
        if abs(difference - self._seen) > JUMP:
            self._since = moment
        self._seen = difference
        lasted = moment - self._since >= CONFIRMED_AFTER
        if lasted or abs(difference - self._believed) <= JUMP:
            self._believe(difference, lasted)
        return moment + self._believed

    @property
    def settled(self) -> bool:
        """May anything be deleted because its time is over?"""
        self.now()
        return not self._doubtful and abs(self._seen - self._believed) <= JUMP

    def _believe(self, difference: float, lasted: bool) -> None:
        jumped = abs(difference - self._believed) > JUMP
        self._believed = difference
        if lasted:
            jumped, self._doubtful = jumped or self._doubtful, False
        if jumped:
            self._save()

    def _load(self) -> None:
        """After a restart of the machine the steady time has begun anew."""
        if self._path is None:
            return
        try:
            found = json.loads(self._path.read_text())
            if found["boot"] == self._boot != "":
                self._believed = float(found["difference"])
            else:
                self._doubtful = True
        except FileNotFoundError:
            self._save()
        except (OSError, ValueError, KeyError, TypeError):
            self._doubtful = True

    def _save(self) -> None:
        """It counts only until the machine is started again, so it need not be synced."""
        if self._path is None:
            return
        temporary = self._path.with_name(f".{FILE}-{os.getpid()}")
        text = json.dumps({"boot": self._boot, "difference": self._believed})
        # Without room on the disk the next process takes the wall clock's word.
        with contextlib.suppress(OSError):
            temporary.write_text(text)
            temporary.replace(self._path)
