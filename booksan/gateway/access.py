"""Who may do what: tokens of the gateway and the operator, secrets of clients, the cluster's word.

Nothing that is compared here ever stands in a log or in the text of an error.
"""

import hashlib
import hmac
import os
import re
from dataclasses import dataclass, field

from starlette.datastructures import Headers

from booksan.errors import UsageError
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Problem
from booksan.spec import Spec, owner_of

CLUSTER_HEADER = "Booksan-Cluster"
#: Beside a right cluster header: the gateway before this one has seen the operator's token.
OPERATOR_HEADER = "Booksan-Operator"
SECRET_HEADER = "Booksan-Secret"

_SECRET = re.compile(r"[\x20-\x7e]{16,256}")


@dataclass(frozen=True)
class Caller:
    """Who sent a request, as far as its headers prove it."""

    operator: bool = False
    #: Another gateway of the cluster, which has checked tokens already.
    gateway: bool = False
    secret: str | None = field(default=None, repr=False)

    def owner(self, client: str) -> str:
        """Whose client it would be; a new client needs a secret."""
        return owner_of(client, self._secret())

    def check_owner(self, spec: Spec, *, operator_may: bool = False) -> None:
        """Refuses all but the client's owner, and the operator where it may stand in."""
        if operator_may and self.operator:
            return
        owner = owner_of(spec.client, self._secret())
        if not hmac.compare_digest(owner.encode(), spec.owner.encode()):
            raise Problem(403, "wrong_secret", f"the secret is not the one of {spec.client}")

    def check_secret(self, *, operator_may: bool = False) -> None:
        """Refuses a request without a secret before anything is looked up for it."""
        if not (operator_may and self.operator):
            self._secret()

    def _secret(self) -> str:
        if self.secret is None:
            raise Problem(
                401, "no_secret", f"the client's secret is missing; send it as {SECRET_HEADER}"
            )
        if not _SECRET.fullmatch(self.secret):
            raise Problem(403, "wrong_secret", "a secret has 16 to 256 printable ASCII characters")
        return self.secret


class Access:
    def __init__(self, token: str, operator_token: str, cluster_secret: bytes) -> None:
        """An empty token is none."""
        self._token = token.encode()
        self._operator = operator_token.encode()
        self.cluster = hmac.new(cluster_secret, b"gateway\0", hashlib.sha256).hexdigest()

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    def caller(self, headers: Headers) -> Caller:
        """Refuses whoever does not know the gateway's token, if there is one."""
        secret = headers.get(SECRET_HEADER)
        cluster = headers.get(CLUSTER_HEADER)
        if cluster is not None:
            if not _same(cluster, self.cluster.encode()):
                raise Problem(403, "wrong_cluster", "the word of the cluster is wrong")
            return Caller(OPERATOR_HEADER in headers, gateway=True, secret=secret)
        given = _bearer(headers)
        if given is not None and self._operator and _same(given, self._operator):
            return Caller(operator=True, secret=secret)
        if self._token:
            if given is None:
                raise Problem(401, "no_token", "the gateway's token is missing; send it as Bearer")
            if not _same(given, self._token):
                raise Problem(403, "wrong_token", "the token is wrong")
        return Caller(secret=secret)


def access_from_environment(config: GatewayConfig, cluster_secret: bytes) -> Access:
    token = os.environ.get("BOOKSAN_TOKEN", "")
    if not token and not config.address.is_loopback:
        raise UsageError(
            f"a gateway that listens on {config.listen} needs a token in BOOKSAN_TOKEN, "
            "because others can reach it"
        )
    return Access(token, os.environ.get("BOOKSAN_OPERATOR_TOKEN", ""), cluster_secret)


def _bearer(headers: Headers) -> str | None:
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def _same(given: str, expected: bytes) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogatepass"), expected)
