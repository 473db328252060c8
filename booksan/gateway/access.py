"""Who may do what: tokens, secrets of clients, and calls that other gateways have signed."""

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import Request

from booksan.errors import UsageError
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Gone, Problem
from booksan.spec import Spec, owner_of

# The word of one gateway to another: signed for one call, good once, and for one receiver.
#
# Clocks of hosts may differ by any amount, so freshness comes from the receiver: it hands out a
# challenge that it makes anew every minute and in every life, and whoever signs with an old one
# is told the present one and signs again. Nobody can collect words for later, or use one twice.

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


class CallSigner:
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


# Who may do what: tokens of the gateway and the operator, secrets of clients, the cluster's word.
#
# Nothing that is compared here ever stands in a log or in the text of an error.

SECRET_HEADER = "Booksan-Secret"

#: Characters of a token that others than this machine's users can try. A random one of so many
#: cannot be guessed over a network.
LEAST_TOKEN = 16

_SECRET = re.compile(r"[\x20-\x7e]{16,256}")


@dataclass(frozen=True)
class Caller:
    """Who sent a request, as far as its headers prove it."""

    operator: bool = False
    secret: str | None = field(default=None, repr=False)
    #: What another gateway of the cluster has checked already; secrets never get this far.
    vouched: Vouched | None = None

    @property
    def gateway(self) -> bool:
        return self.vouched is not None

    def owner(self, client: str) -> str:
        """Whose client it would be; a new client needs a secret."""
        if self.vouched is not None and self.vouched.owner:
            return self.vouched.owner
        return owner_of(client, self._secret())

    def vouch_for(self, client: str, body: bytes) -> Vouched:
        """What this gateway may tell another one about a call for this client."""
        owner = owner_of(client, self._secret()) if self.secret is not None else ""
        return Vouched(self.operator, owner, digest_of_body(body))

    def check_body(self, body: bytes) -> None:
        """Refuses another body than the one that the gateway before this one has signed."""
        if self.vouched is not None and self.vouched.body != digest_of_body(body):
            raise Problem(403, "wrong_cluster", "the word of the cluster is for another body")

    def check_owner(self, spec: Spec, *, operator_may: bool = False) -> None:
        """Refuses all but the client's owner, and the operator where it may stand in."""
        self._check(spec.client, spec.owner, operator_may)

    def check_gone(self, client: str, gone: Gone, *, operator_may: bool = False) -> None:
        """The same for a client that is no more, if it is still known whose it was."""
        if gone.owner:
            self._check(client, gone.owner, operator_may)

    def _check(self, client: str, expected: str, operator_may: bool) -> None:
        if operator_may and self.operator:
            return
        if not hmac.compare_digest(self.owner(client).encode(), expected.encode()):
            raise Problem(403, "wrong_secret", f"the secret is not the one of {client}")

    def check_secret(self, *, operator_may: bool = False) -> None:
        """Refuses a request without a secret before anything is looked up for it."""
        if not (operator_may and self.operator):
            self.owner("")

    def _secret(self) -> str:
        if self.secret is None:
            raise Problem(
                401, "no_secret", f"the client's secret is missing; send it as {SECRET_HEADER}"
            )
        if not _SECRET.fullmatch(self.secret):
            raise Problem(403, "wrong_secret", "a secret has 16 to 256 printable ASCII characters")
        return self.secret


class Access:
    def __init__(
        self, token: str, operator_token: str, keys: Sequence[bytes], receiver: str = ""
    ) -> None:
        """An empty token is none; `receiver` is where other gateways reach this one, if known."""
        self._token = token.encode()
        self._operator = operator_token.encode()
        self._receiver = receiver
        self.word = CallSigner(keys)

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    def caller(self, request: Request) -> Caller:
        """Refuses whoever does not know the gateway's token, if there is one."""
        headers = request.headers
        secret = headers.get(SECRET_HEADER)
        word = headers.get(CLUSTER_HEADER)
        if word is not None:
            vouched = self.word.check(word, self._call(request))
            return Caller(vouched.operator, vouched=vouched)
        given = _bearer(headers)
        if given is not None and self._operator and _same(given, self._operator):
            return Caller(operator=True, secret=secret)
        if self._token:
            if given is None:
                raise Problem(401, "no_token", "the gateway's token is missing; send it as Bearer")
            if not _same(given, self._token):
                raise Problem(403, "wrong_token", "the token is wrong")
        return Caller(secret=secret)

    def _call(self, request: Request) -> Call:
        query = request.scope["query_string"].decode("latin-1")
        path = request.scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        return Call(request.method, path, self._receiver or request.headers.get("host", ""))


def access_from_environment(config: GatewayConfig, keys: Sequence[bytes]) -> Access:
    token = os.environ.get("BOOKSAN_TOKEN", "")
    operator = os.environ.get("BOOKSAN_OPERATOR_TOKEN", "")
    if not config.address.is_loopback:
        if not token:
            raise UsageError(
                f"a gateway that listens on {config.listen} needs a token in BOOKSAN_TOKEN, "
                "because others can reach it"
            )
        _check_long({"BOOKSAN_TOKEN": token, "BOOKSAN_OPERATOR_TOKEN": operator})
    return Access(token, operator, keys, config.reached)


def _check_long(tokens: Mapping[str, str]) -> None:
    for name, token in tokens.items():
        if 0 < len(token) < LEAST_TOKEN:
            raise UsageError(
                f"the token in {name} has {len(token)} characters and could be guessed by those "
                f"who can reach the gateway; it needs {LEAST_TOKEN} random ones or more"
            )


def _bearer(headers: Headers) -> str | None:
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def _same(given: str, expected: bytes) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogatepass"), expected)
