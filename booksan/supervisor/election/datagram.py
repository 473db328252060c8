"""Messages as bytes: a fixed layout and a keyed MAC over all of it. No room for surprises."""

import hmac
import struct
from typing import NamedTuple

from booksan.supervisor.election.guard import Stamp
from booksan.supervisor.election.messages import Kind, Message, Term

#: Of the layout below: another version is another language, and ignored.
VERSION = 1
_MAGIC = b"bksn"
#: magic, version, kind, sender, receiver, boot, seq, seen, term (counter, host), nonce, echo.
_LAYOUT = struct.Struct("!4sBBIIQQQQIQQ")
_MAC_BYTES = 32
SIZE = _LAYOUT.size + _MAC_BYTES


class Incoming(NamedTuple):
    message: Message
    stamp: Stamp


class Codec:
    """The language of one cluster, as one host speaks it."""

    def __init__(self, host: int, secret: bytes) -> None:
        self._host = host
        # A key of its own: the cluster's secret signs other things as well.
        self._key = hmac.digest(secret, b"booksan election", "sha256")

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
        return body + hmac.digest(self._key, body, "sha256")

    def decode(self, data: bytes) -> Incoming | None:
        """None: malformed, forged, of another cluster or version, or not for this host."""
        if len(data) != SIZE:
            return None
        body, mac = data[: _LAYOUT.size], data[_LAYOUT.size :]
        if not hmac.compare_digest(hmac.digest(self._key, body, "sha256"), mac):
            return None
        magic, version, kind, sender, to, boot, seq, seen, counter, host, nonce, echo = (
            _LAYOUT.unpack(body)
        )
        known = magic == _MAGIC and version == VERSION and kind in Kind._value2member_map_
        if not known or to != self._host or sender == self._host:
            return None
        message = Message(Kind(kind), sender, Term(counter, host), nonce, echo)
        return Incoming(message, Stamp(boot, seq, seen))
