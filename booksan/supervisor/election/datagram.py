"""Messages as bytes: a fixed layout and a keyed MAC over all of it. No room for surprises."""

import hmac
import struct
from collections.abc import Sequence
from typing import NamedTuple

from booksan.supervisor.election.guard import Stamp
from booksan.supervisor.election.messages import Kind, Message, Term

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
        known = magic == _MAGIC and version in _COMPATIBLE and kind in Kind._value2member_map_
        if not known or to != self._host or sender == self._host:
            return None
        message = Message(Kind(kind), sender, Term(counter, host), nonce, echo)
        return Incoming(message, Stamp(boot, seq, seen))
