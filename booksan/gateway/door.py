"""The outermost layer of the application: every request passes here, every error ends here."""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from booksan.gateway.bodies import Incoming
from booksan.gateway.errors import Problem, log, problem_of
from booksan.gateway.limits import GUARDS, Connections, peer_of
from booksan.gateway.names import Names

#: Seconds for a client to take the next piece of its answer.
SEND_SECONDS = 60.0


#: Codes of refusals after which nothing more is waited for.
_AT_ONCE = ("too_slow", "stopping")


def _stopping() -> Problem:
    return Problem(503, "stopping", "the gateway is being stopped; send it again")


class Door:
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
