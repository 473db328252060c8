"""The word of one gateway to another: signed for one call, good once, and for one receiver.

Clocks of hosts may differ by any amount, so freshness comes from the receiver: it hands out a
challenge that it makes anew every minute and in every life, and whoever signs with an old one is
told the present one and signs again. Nobody can collect words for later, or use one twice.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from booksan.gateway.errors import Problem

CLUSTER_HEADER = "Booksan-Cluster"
CHALLENGE_HEADER = "Booksan-Challenge"

#: Seconds of one challenge; the one before it is good as well.
CHALLENGE_SECONDS = 60.0


@dataclass(frozen=True)
class Call:
    """What a word is about."""

    method: str
    #: With the query, as it stands in the request.
    path: str
    #: The receiving gateway's host and port, as the topology names them.
    receiver: str


@dataclass(frozen=True)
class Vouched:
    """What the gateway before this one has checked, and says under its signature."""

    operator: bool = False
    #: `owner_of` the client that the call is about; empty if no secret came with it.
    owner: str = ""
    #: SHA-256 of the body.
    body: str = ""


class Word:
    def __init__(self, keys: Sequence[bytes]) -> None:
        """The first key signs, all of them are accepted."""
        self._keys = [hmac.digest(key, b"gateway\0", "sha256") for key in keys]
        self._life = secrets.token_hex(16)
        #: Nonces of the present minute and of the one before.
        self._seen: dict[int, set[str]] = {}

    def sign(self, call: Call, vouched: Vouched, challenge: str) -> str:
        nonce = secrets.token_hex(16)
        fields = (challenge, nonce, str(int(vouched.operator)), vouched.owner, vouched.body)
        return ",".join((*fields, _mac(self._keys[0], call, fields)))

    def challenge(self) -> str:
        return f"{self._life}.{_minute()}"

    def check(self, word: str, call: Call) -> Vouched:
        """Refuses a word that is not of this cluster, not for this call, old, or used before."""
        *fields, signature = word.split(",")
        expected = [_mac(key, call, fields) for key in self._keys]
        given = signature.encode(errors="surrogatepass")
        # All are compared, so that the time tells nothing of which one it is.
        right = sum(hmac.compare_digest(given, each.encode()) for each in expected)
        if not right or len(fields) != 5:
            raise Problem(403, "wrong_cluster", "the word of the cluster is wrong")
        challenge, nonce, operator, owner, body = fields
        self._check_fresh(challenge, nonce)
        return Vouched(operator == "1", owner, body)

    def stale(self) -> Problem:
        problem = Problem(401, "stale_word", "the word is not fresh; sign the present challenge")
        problem.extra = {CHALLENGE_HEADER: self.challenge()}
        return problem

    def _check_fresh(self, challenge: str, nonce: str) -> None:
        now = _minute()
        for minute in [minute for minute in self._seen if minute < now - 1]:
            del self._seen[minute]
        for minute in (now, now - 1):
            if challenge == f"{self._life}.{minute}":
                seen = self._seen.setdefault(minute, set())
                if nonce in seen:
                    break
                seen.add(nonce)
                return
        raise self.stale()


def digest_of_body(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _minute() -> int:
    return int(time.monotonic() // CHALLENGE_SECONDS)


def _mac(key: bytes, call: Call, fields: Sequence[str]) -> str:
    text = "\0".join((call.method, call.path, call.receiver, *fields))
    return hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
