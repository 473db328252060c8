"""Who may do what: tokens of the gateway and the operator, secrets of clients, the cluster's word.

Nothing that is compared here ever stands in a log or in the text of an error.
"""

import hmac
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import Request

from booksan.errors import UsageError
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Gone, Problem
from booksan.gateway.word import CLUSTER_HEADER, Call, Vouched, Word, digest_of_body
from booksan.spec import Spec, owner_of

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
        self.word = Word(keys)

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
