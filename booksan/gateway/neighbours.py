"""The gateways of the other hosts, which are asked about the homes that are there."""

import asyncio
from collections.abc import AsyncIterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from booksan.gateway.access import CLUSTER_HEADER, OPERATOR_HEADER, SECRET_HEADER, Caller
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Problem, tell

if TYPE_CHECKING:
    import httpx

#: Seconds to reach another gateway, and to wait for its next bytes: longer than the longest poll.
CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
#: Seconds for an answer that all other gateways are asked for at once.
ASK_SECONDS = 3.0

_PASSED_ON = ("Booksan-Ticket", "Content-Type", SECRET_HEADER)
_PASSED_BACK = ("Content-Type", "Content-Length", "Content-Disposition", "Retry-After")


class Neighbours:
    """They trust that tokens were checked here."""

    def __init__(self, config: GatewayConfig, cluster: str) -> None:
        self._gateways = config.gateways
        self._cluster = cluster
        self._most = config.max_connections

    @cached_property
    def _http(self) -> "httpx.AsyncClient":
        """Made when a neighbour is first asked: a host that is alone need not load it."""
        import httpx

        limits = httpx.Limits(max_connections=self._most, max_keepalive_connections=32)
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
        return httpx.AsyncClient(trust_env=False, timeout=timeout, limits=limits)

    async def forward(self, request: Request, caller: Caller, url: str, body: bytes) -> Response:
        """The answer of the gateway at this URL, as it comes."""
        import httpx

        headers = self._headers(caller)
        headers |= {k: request.headers[k] for k in _PASSED_ON if k in request.headers}
        path = request.scope["raw_path"].decode()
        path += f"?{request.url.query}" if request.url.query else ""
        sent = self._http.build_request(
            request.method, url + path, content=body or None, headers=headers
        )
        try:
            answer = await self._http.send(sent, stream=True)
        except httpx.HTTPError as error:
            raise _away(url, error) from None
        kept = {k: answer.headers[k] for k in _PASSED_BACK if k in answer.headers}
        headers = kept | {"Cache-Control": "no-store"}
        return StreamingResponse(_content(answer), answer.status_code, headers)

    async def ask(
        self, caller: Caller, url: str, path: str, headers: dict[str, str] | None = None
    ) -> "httpx.Response":
        """The answer to a GET; Problem if the gateway cannot be reached."""
        import httpx

        try:
            return await self._http.get(url + path, headers=self._headers(caller) | (headers or {}))
        except httpx.HTTPError as error:
            raise _away(url, error) from None

    async def ask_all(self, path: str) -> AsyncIterator[tuple[str, Any | None]]:
        """(host, what it answered) for every other host; None for those that did not answer."""
        hosts = list(self._gateways)
        answers = await asyncio.gather(*(self._ask_one(host, path) for host in hosts))
        for host, answer in zip(hosts, answers, strict=True):
            yield host, answer

    async def _ask_one(self, host: str, path: str) -> Any | None:
        return await self.word_of(self._gateways[host], path, ASK_SECONDS)

    async def word_of(self, url: str, path: str, seconds: float) -> Any | None:
        """What the gateway there answers to another one; None if it does not."""
        import httpx

        try:
            answer = await self._http.get(
                url + path, headers={CLUSTER_HEADER: self._cluster}, timeout=seconds
            )
            return answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            return None

    async def close(self) -> None:
        if "_http" in vars(self):
            await self._http.aclose()

    def _headers(self, caller: Caller) -> dict[str, str]:
        headers = {CLUSTER_HEADER: self._cluster, "Accept-Encoding": "identity"}
        if caller.operator:
            headers[OPERATOR_HEADER] = "1"
        if caller.secret is not None:
            headers[SECRET_HEADER] = caller.secret
        return headers


async def _content(answer: "httpx.Response") -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()


def _away(url: str, error: Exception) -> Problem:
    tell(f"the gateway {url} cannot be reached", error)
    return Problem(503, "home_away", "the host of the client's home cannot be reached; try again")
