"""What hosts say to each other, what the machine asks for, and both as bytes with a MAC."""

import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

# What hosts say to each other. Plain data; further down it becomes bytes.


class DatagramKind(IntEnum):
    """The numbers travel: never change one, only add."""

    #: "Is anybody above me alive?", to all higher hosts.
    ELECTION = 1
    #: "I am, and higher than you", the answer to ELECTION and to a COORDINATOR from below.
    ALIVE = 2
    #: "I am going to lead in this term: stop acting and agree."
    COORDINATOR = 3
    #: The answer to COORDINATOR. With its term: agreed, and the sender does not act any more.
    #: With a later one: refused.
    AGREED = 4
    #: "I lead in this term. Are you well?"
    HEARTBEAT = 5
    #: The answer to HEARTBEAT, with the latest term that the sender knows.
    PONG = 6
    #: "I am being stopped: do not revive me, do not wait for me."
    LEAVING = 7


class Term(NamedTuple):
    """One leadership. Later ones are greater; no two hosts ever have the same."""

    counter: int
    host: int


NO_TERM = Term(0, 0)


class Message(NamedTuple):
    kind: DatagramKind
    sender: int
    term: Term
    #: Names a question; an answer echoes it.
    nonce: int
    echo: int = 0
    #: The life of the sender, set by whoever received it: greater after each start.
    boot: int = 0
    #: Whether the sender knows the receiver's present life, so that it cannot be a recording of
    #: an earlier one. Set by whoever received it.
    proven: bool = False


# What the machine asks its caller to do, in this order.


class Send(NamedTuple):
    to: int
    message: Message


@dataclass(frozen=True)
class PersistTerm:
    """On disk before anything that follows it in the list is done."""

    term: Term


@dataclass(frozen=True)
class BecomeLeader:
    term: Term


@dataclass(frozen=True)
class StepDown:
    reason: str


@dataclass(frozen=True)
class HostSuspected:
    """The host does not answer the leader; it has not said that it leaves."""

    host: int


@dataclass(frozen=True)
class HostHealthy:
    """The host answers: for the first time in this term, or again."""

    host: int


Action = Send | PersistTerm | BecomeLeader | StepDown | HostSuspected | HostHealthy


# Refuses what was replayed, and numbers what goes out.
#
# Each start of a host is a **life** with a greater number than the one before; within a life its
# datagrams are numbered. A receiver takes each number once, and nothing of an earlier life. One
# that has just started remembers nothing, so a recording could deceive it: therefore each datagram
# also names the receiver's life as its sender knows it, and one that names the present life is
# proven to be new.

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


# Messages as bytes: a fixed layout and a keyed MAC over all of it. No room for surprises.

#: Of the layout below. Hosts are replaced one by one, so those of two versions must understand each
#: other: a later version may only add fields behind the known ones, and a reader leaves those be.
VERSION = 1
#: Versions that add fields only; what must not be understood in parts gets a number beyond them.
_COMPATIBLE = range(1, 128)
_MAGIC = b"bksn"
#: magic, version, kind, sender, receiver, boot, seq, seen, term (counter, host), nonce, echo.
_LAYOUT = struct.Struct("!4sBBIIQQQQIQQ")
_MAC_BYTES = 32
SIZE = _LAYOUT.size + _MAC_BYTES
#: Bytes of the longest datagram that is read: room for the fields of later versions.
LONGEST = 512


class Incoming(NamedTuple):
    message: Message
    stamp: Stamp


class Codec:
    """The language of one cluster, as one host speaks it."""

    def __init__(self, host: int, secrets: Sequence[bytes]) -> None:
        """The first secret signs, and each is accepted."""
        self._host = host
        # Keys of their own: the cluster's secret signs other things as well.
        self._keys = [hmac.digest(one, b"booksan election", "sha256") for one in secrets]

    def encode(self, to: int, message: Message, stamp: Stamp) -> bytes:
        body = _LAYOUT.pack(
            _MAGIC,
            VERSION,
            message.kind,
            message.sender,
            to,
            *stamp,
            *message.term,
            message.nonce,
            message.echo,
        )
        return body + hmac.digest(self._keys[0], body, "sha256")

    def decode(self, data: bytes) -> Incoming | None:
        """None: malformed, forged, of another cluster or version, or not for this host."""
        if not SIZE <= len(data) <= LONGEST:
            return None
        body, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
        macs = (hmac.digest(key, body, "sha256") for key in self._keys)
        if not any(hmac.compare_digest(one, mac) for one in macs):
            return None
        magic, version, kind, sender, to, boot, seq, seen, counter, host, nonce, echo = (
            _LAYOUT.unpack_from(body)
        )
        known = (
            magic == _MAGIC and version in _COMPATIBLE and kind in DatagramKind._value2member_map_
        )
        if not known or to != self._host or sender == self._host:
            return None
        message = Message(DatagramKind(kind), sender, Term(counter, host), nonce, echo)
        return Incoming(message, Stamp(boot, seq, seen))
