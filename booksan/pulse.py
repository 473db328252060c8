"""A worker's sign of life: a moment in memory that its supervisor can see.

The supervisor makes the memory before it forks, one slot for each worker. A worker beats between
units of work and while it waits; one that has not for long hangs, whatever its process says.
"""

import mmap
import struct
import time

_MOMENT = struct.Struct("d")


class Pulses:
    """Shared by a supervisor and its workers. Monotonic time is the same for all of them."""

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, max(1, workers) * _MOMENT.size)

    def last(self, slot: int) -> float:
        """When this worker last gave a sign of life."""
        return float(_MOMENT.unpack_from(self._memory, slot * _MOMENT.size)[0])

    def beat(self, slot: int) -> None:
        _MOMENT.pack_into(self._memory, slot * _MOMENT.size, time.monotonic())


class _Own:
    """The pulse of this process, if it is a worker's."""

    pulses: Pulses | None = None
    slot = 0


def take(pulses: Pulses, slot: int) -> None:
    """From now on this process is the worker in that slot."""
    _Own.pulses, _Own.slot = pulses, slot
    beat()


def beat() -> None:
    """This worker lives. Does nothing in a process that nobody watches."""
    if _Own.pulses is not None:
        _Own.pulses.beat(_Own.slot)
