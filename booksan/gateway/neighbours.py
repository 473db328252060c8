"""The gateways of the other hosts, which are asked about the homes that are there."""

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from booksan.gateway.access import Caller
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Problem, tell
from booksan.gateway.word import CHALLENGE_HEADER, CLUSTER_HEADER, Call, Vouched, Word

if TYPE_CHECKING:
    import httpx

#: Seconds to reach another gateway, and to wait for its next bytes: longer than the longest poll.
CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
#: Seconds for an answer that all other gateways are asked for at once.
ASK_SECONDS = 3.0

_CHALLENGE = re.compile(r"[0-9a-f.]{1,80}")
#: Names the authority that signed the other gateways' certificates, if it is one of your own.
CA = "BOOKSAN_TLS_CA"

_PASSED_ON = ("Booksan-Ticket", "Content-Type")
_PASSED_BACK = ("Content-Type", "Content-Length", "Content-Disposition", "Retry-After")


class Neighbours:
    """They trust what this one says under the cluster's signature; secrets never travel on."""

    def __init__(self, config: GatewayConfig, word: Word) -> None:
        self._gateways = config.gateways
        self._word = word
        self._most = config.max_connections
        #: The last challenge of each gateway.
        self._challenges: dict[str, str] = {}

    @cached_property
    def _http(self) -> "httpx.AsyncClient":
        """Made when a neighbour is first asked: a host that is alone need not load it."""
        import httpx

        limits = httpx.Limits(max_connections=self._most, max_keepalive_connections=32)
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
        authority = os.environ.get(CA)
        verify = ssl.create_default_context(cafile=authority) if authority else True
        return httpx.AsyncClient(trust_env=False, timeout=timeout, limits=limits, verify=verify)

    async def forward(
        self, request: Request, caller: Caller, client: str, url: str, body: bytes = b""
    ) -> Response:
        """The answer of the gateway at this URL, as it comes."""
        import httpx

        headers = {k: request.headers[k] for k in _PASSED_ON if k in request.headers}
        path = request.scope["raw_path"].decode()
        path += f"?{request.url.query}" if request.url.query else ""
        sent = self._http.build_request(
            request.method, url + path, content=body or None, headers=headers
        )
        try:
            answer = await self._send(sent, url, caller.vouch_for(client, body))
        except httpx.HTTPError as error:
            raise _away(url, error) from None
        kept = {k: answer.headers[k] for k in _PASSED_BACK if k in answer.headers}
        headers = kept | {"Cache-Control": "no-store"}
        return StreamingResponse(_content(answer), answer.status_code, headers)

    async def ask(
        self, caller: Caller, client: str, url: str, headers: dict[str, str]
    ) -> "httpx.Response":
        """The client's status; Problem if the gateway cannot be reached."""
        import httpx

        sent = self._http.build_request("GET", f"{url}/v1/clients/{client}", headers=headers)
        try:
            answer = await self._send(sent, url, caller.vouch_for(client, b""))
            await answer.aread()
        except httpx.HTTPError as error:
            raise _away(url, error) from None
        return answer

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

        sent = self._http.build_request("GET", url + path, timeout=seconds)
        try:
            answer = await self._send(sent, url, Vouched())
            await answer.aread()
            return answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            return None

    async def _send(self, sent: "httpx.Request", url: str, vouched: Vouched) -> "httpx.Response":
        """Signed with the receiver's last challenge, and once more if it has a new one."""
        sent.headers["Accept-Encoding"] = "identity"
        call = Call(sent.method, sent.url.raw_path.decode(), urlsplit(url).netloc)
        for again in (True, False):
            challenge = self._challenges.get(url, "")
            sent.headers[CLUSTER_HEADER] = self._word.sign(call, vouched, challenge)
            answer = await self._http.send(sent, stream=True)
            fresh = answer.headers.get(CHALLENGE_HEADER, "")
            if not again or answer.status_code != 401 or not _CHALLENGE.fullmatch(fresh):
                break
            self._challenges[url] = fresh
            await answer.aclose()
        return answer

    async def close(self) -> None:
        if "_http" in vars(self):
            await self._http.aclose()


async def _content(answer: "httpx.Response") -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()


def _away(url: str, error: Exception) -> Problem:
    tell(f"the gateway {url} cannot be reached", error)
    return Problem(503, "home_away", "the host of the client's home cannot be reached; try again")
