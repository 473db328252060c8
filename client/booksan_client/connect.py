"""From the options that name servers and credentials to calls."""

import ipaddress
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from booksan_client.api import Api
from booksan_client.caller import PATIENCE, Caller, Limits, Servers, Trouble
from booksan_client.wire import check_url
from booksan_common.errors import Interrupted, UsageError
from booksan_common.files import OPERATOR_TOKEN, TOKEN, authorization, read_token

DEFAULT_SERVER = "http://127.0.0.1:7300"
SERVERS = "BOOKSAN_SERVER"


@dataclass(frozen=True)
class ServerOptions:
    """What the command line says of servers."""

    servers: Sequence[str] = ()
    token_file: Path | None = None
    operator_token_file: Path | None = None
    patience: float = PATIENCE

    def urls(self, known: Sequence[str] = ()) -> list[str]:
        """Of the command line, the environment, what an earlier command knew, or the default."""
        named = list(self.servers) or [
            word.strip() for word in os.environ.get(SERVERS, "").split(",") if word.strip()
        ]
        return [check_url(url) for url in named or known or [DEFAULT_SERVER]]

    def token(self) -> str | None:
        return read_token(self.token_file, TOKEN)

    def operator_token(self) -> str | None:
        return read_token(self.operator_token_file, OPERATOR_TOKEN)

    def needed_operator_token(self) -> str:
        token = self.operator_token()
        if token is None:
            raise UsageError(
                f"the operator's token is needed: name its file with --operator-token-file, or set "
                f"{OPERATOR_TOKEN}"
            )
        return token


def interrupted_by(stopping: Callable[[], bool]) -> Callable[[], None]:
    def look() -> None:
        if stopping():
            raise Interrupted

    return look


def what_to_do(urls: Sequence[str]) -> str:
    """About servers none of which can be reached."""
    if all(map(_is_here, urls)):
        return "start one with `booksan host` in another terminal, or with `booksan cluster up`"
    return (
        f"check the address (--server, {SERVERS}), that a host runs there, and that no firewall is "
        "in the way"
    )


def _is_here(url: str) -> bool:
    """On this machine, as far as the address tells."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def connect(
    urls: Sequence[str],
    token: str | None,
    look: Callable[[], object],
    patience: float = PATIENCE,
    tell: Callable[[str], object] | None = None,
) -> Api:
    """`look` raises to end the waiting for a server; `tell` hears why it takes so long."""
    caller = Caller(
        Servers(urls),
        authorization(token),
        limits=Limits(patience=patience),
        while_waiting=look,
        trouble=Trouble(tell) if tell else None,
        advice=what_to_do,
    )
    return Api(caller)
