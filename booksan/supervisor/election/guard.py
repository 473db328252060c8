"""Refuses what was replayed, and numbers what goes out.

Each start of a host is a **life** with a greater number than the one before; within a life its
datagrams are numbered. A receiver takes each number once, and nothing of an earlier life. One
that has just started remembers nothing, so a recording could deceive it: therefore each datagram
also names the receiver's life as its sender knows it, and one that names the present life is
proven to be new.
"""

from typing import NamedTuple

#: Numbers behind the greatest that may still come: datagrams overtake each other.
_WINDOW = 128
_MASK = (1 << _WINDOW) - 1


class Stamp(NamedTuple):
    #: The life of the sender, and the number in it.
    boot: int
    seq: int
    #: The life of the receiver that the sender has last heard of; 0: none.
    seen: int


class Guard:
    """What one life of a host knows of the datagrams of all others."""

    def __init__(self, boot: int) -> None:
        self.boot = boot
        self._seq = 0
        #: For each host its life, its greatest number, and a bit for each number up to that.
        self._taken: dict[int, tuple[int, int, int]] = {}

    def stamp(self, to: int) -> Stamp:
        self._seq += 1
        return Stamp(self.boot, self._seq, self._taken.get(to, (0, 0, 0))[0])

    def admit(self, sender: int, stamp: Stamp) -> bool:
        """Say whether this is the first time that the datagram comes."""
        boot, greatest, bits = self._taken.get(sender, (0, 0, 0))
        if stamp.boot < boot:
            return False
        if stamp.boot > boot:
            greatest, bits = stamp.seq, 1
        elif stamp.seq > greatest:
            bits = (bits << min(stamp.seq - greatest, _WINDOW) | 1) & _MASK
            greatest = stamp.seq
        else:
            bit = 1 << (greatest - stamp.seq) & _MASK if greatest - stamp.seq < _WINDOW else 0
            if bits & bit or not bit:
                return False
            bits |= bit
        self._taken[sender] = (stamp.boot, greatest, bits)
        return True

    def proven(self, stamp: Stamp) -> bool:
        return stamp.seen == self.boot
