"""A worker's sign of life: a moment in memory that its supervisor can see.

The supervisor makes the memory before it forks, one slot for each worker. A worker beats between
units of work and while it waits; one that has not for long hangs, whatever its process says.
"""

import gc
import mmap
import struct
import time

#: When it last gave a sign of life, and whether the one before it in its place had stopped to.
_MOMENT = struct.Struct("d?")


class Heartbeats:
    """Shared by a supervisor and its workers. Monotonic time is the same for all of them."""

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, max(1, workers) * _MOMENT.size)

    def last(self, slot: int) -> float:
        """When this worker last gave a sign of life."""
        return float(self._read(slot)[0])

    def beat(self, slot: int) -> None:
        self._write(slot, time.monotonic(), self.has_hung(slot))

    def has_hung(self, slot: int) -> bool:
        return bool(self._read(slot)[1])

    def note_end(self, slot: int, *, hung: bool) -> None:
        """For the next worker in this slot: how the last one ended."""
        self._write(slot, time.monotonic(), hung)

    def _read(self, slot: int) -> tuple[float, bool]:
        moment, hung = _MOMENT.unpack_from(self._memory, slot * _MOMENT.size)
        return moment, hung

    def _write(self, slot: int, moment: float, hung: bool) -> None:
        _MOMENT.pack_into(self._memory, slot * _MOMENT.size, moment, hung)


class _Own:
    """The heartbeat of this process, if it is a worker's."""

    heartbeats: Heartbeats | None = None
    slot = 0


def take(heartbeats: Heartbeats, slot: int) -> None:
    """From now on this process is the worker in that slot."""
    _Own.heartbeats, _Own.slot = heartbeats, slot
    beat()


def beat() -> None:
    """This worker lives. Does nothing in a process that nobody watches."""
    if _Own.heartbeats is not None:
        _Own.heartbeats.beat(_Own.slot)


def has_hung() -> bool:
    """Was the worker before this one ended because it gave no sign of life?"""
    return _Own.heartbeats is not None and _Own.heartbeats.has_hung(_Own.slot)


# Keeping Python's garbage collector out of the way of the work.


def quiet_collector() -> None:
    """What is loaded by now stays, so it need not be looked at again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
