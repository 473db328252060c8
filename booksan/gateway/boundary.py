"""The outermost layer: every request passes here, checked by name and origin; every error ends."""

import asyncio
import ipaddress
import os
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from booksan.gateway.bodies import Incoming
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Problem, log, problem_of
from booksan.gateway.protocol import GUARDS, Connections, peer_of

# By which names a gateway may be called, and from which pages: a defence against web browsers.
#
# A page of anybody can make a browser on this machine call a gateway here: by a name of its own
# that it lets point to 127.0.0.1, or across origins. A browser tells both, in Host and Origin.
# Addresses cannot be made to point elsewhere, so they are always taken.

HOSTS = "BOOKSAN_HOSTS"


class Names:
    def __init__(self, given: Iterable[str], own: Iterable[str], *, any_host: bool) -> None:
        """Pages may come from the `given` names too; with `any_host` only origins are checked."""
        self._given = frozenset(name.lower() for name in given)
        self._names = self._given | {name.lower() for name in own}
        self._any_host = any_host

    def check(self, headers: Headers) -> None:
        """Refuses what a browser sends for somebody else's page."""
        hosts = headers.getlist("host")
        for host in hosts:
            if not self._any_host and not self._is_known(_name_of(host)):
                raise Problem(
                    403, "wrong_host", f"the gateway is not known by this name; see {HOSTS}"
                )
        for origin in headers.getlist("origin"):
            place = origin.partition("://")[2]
            if place not in hosts and _name_of(place) not in self._given:
                raise Problem(403, "wrong_origin", "pages of other origins may not ask this")

    def _is_known(self, name: str) -> bool:
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def names_of(config: GatewayConfig, *, has_token: bool) -> Names:
    """Whoever names hosts has them checked; else a token is as good: no page knows it."""
    given = [*config.hosts, *os.environ.get(HOSTS, "").replace(",", " ").split()]
    return Names(given, _own_names(config), any_host=has_token and not given)


def _own_names(config: GatewayConfig) -> Iterator[str]:
    yield from ("localhost", config.host, config.address.host)
    for url in (*config.gateways.values(), *config.homes.values()):
        yield urlsplit(url).hostname or "localhost"


def _name_of(place: str) -> str:
    """Without the port; nothing for what is no place."""
    try:
        return (urlsplit(f"//{place}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# The outermost layer of the application: every request passes here, every error ends here.

#: Seconds for a client to take the next piece of its answer.
SEND_SECONDS = 60.0


#: Codes of refusals after which nothing more is waited for.
_AT_ONCE = ("too_slow", "stopping")


def _stopping() -> Problem:
    return Problem(503, "stopping", "the gateway is being stopped; send it again")


class ErrorBoundary:
    def __init__(self, app: ASGIApp, connections: Connections, names: Names) -> None:
        self._app = app
        self._connections = connections
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        peer = peer_of(scope)
        self._connections.began(peer)
        try:
            await self._serve(scope, receive, send)
        finally:
            self._connections.ended(peer)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        incoming = Incoming(receive, headers)
        answer = _Answer(send)
        # Makes the router raise what it has no answer to, instead of answering in plain text.
        scope["app"] = self
        try:
            self._names.check(headers)
            await self._app(scope, incoming.receive, answer.send)
        except asyncio.CancelledError:
            # Only the end of the process cancels a request, when its time to drain is over.
            await self._refuse(_stopping(), scope, incoming, answer)
        except Exception as error:  # noqa: BLE001
            await self._refuse(error, scope, incoming, answer)

    async def _refuse(
        self, error: Exception, scope: Scope, incoming: Incoming, answer: "_Answer"
    ) -> None:
        if answer.begun:
            # Too late for words: without its end the client sees that the answer is not whole.
            log.warning("an answer was cut short: %r", error)
            return
        problem = problem_of(error)
        response = problem.response()
        if problem.code in _AT_ONCE or not await incoming.drop():
            response.headers["Connection"] = "close"
        await response(scope, incoming.receive, answer.send)


class _Answer:
    """The sending side: knows whether the answer has begun, and does not wait for ever."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def send(self, message: Message) -> None:
        self.begun = True
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in GUARDS.items():
                headers.setdefault(name, value)
        async with asyncio.timeout(SEND_SECONDS):
            await self._send(message)
