"""The homes of clients: those of this host are read here, others are asked through their gateway.

All reading happens in threads, with databases that are closed again at once: their worker deletes
them when the client is gone.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from booksan.gateway.access import CLUSTER_HEADER, OPERATOR_HEADER, SECRET_HEADER, Caller
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Problem, gone, log, unknown_client
from booksan.hashing import shard_of
from booksan.home import HomeStatus, HomeView
from booksan.inspection import failures
from booksan.spec import HOME
from booksan.stages.datasets import datasets

T = TypeVar("T")

#: Threads that read databases.
READERS = 8
#: Failures that are remembered.
MAX_FAILURES = 1000
#: Seconds to reach another gateway, and to wait for its next bytes: longer than the longest poll.
CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
#: Seconds for an answer that all other gateways are asked for at once.
ASK_SECONDS = 3.0

_PASSED_ON = ("Booksan-Ticket", "Content-Type", SECRET_HEADER)
_PASSED_BACK = ("Content-Type", "Content-Length", "Content-Disposition", "Retry-After")


@dataclass(frozen=True)
class Look:
    """What a home says of a client at one moment."""

    status: HomeStatus
    #: Rows of each answer that have come.
    rows: dict[str, int] = field(default_factory=dict)
    #: Why the run has failed, as its home or another shard of this host knows it.
    failed: str | None = None

    @property
    def over(self) -> bool:
        return self.status.done or self.failed is not None


class Homes:
    """The homes on this host."""

    def __init__(self, data_dir: Path, config: GatewayConfig) -> None:
        self._root = data_dir
        self._threads = ThreadPoolExecutor(READERS, "home")
        self._homes = config.homes
        self._count = config.shards[HOME]
        #: Failures that only thorough looks find: what was seen once must not vanish again.
        self._failed: dict[str, str] = {}

    @property
    def root(self) -> Path:
        return self._root

    def shard(self, client: str) -> int:
        """The home of a client that is not pinned to other shard numbers by a ticket."""
        return shard_of(client, self._count)

    def url(self, shard: int) -> str:
        """Of the gateway that can read this home; empty for this one."""
        if shard not in self._homes:
            raise Problem(403, "wrong_ticket", f"this cluster has no {HOME}.{shard}")
        return self._homes[shard]

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def look(self, client: str, shard: int, *, thorough: bool = True) -> Look:
        """Raises Problem if the client is gone or unknown; `thorough` asks other shards too."""
        return await self.run(self._look, client, shard, thorough)

    async def read(self, client: str, shard: int, work: Callable[[HomeView], T]) -> T:
        """Whatever `work` reads of a client that is there."""
        return await self.run(self._read, client, shard, work)

    async def how_gone(self, client: str, shard: int) -> str | None:
        return await self.run(self._how_gone, client, shard)

    async def all(self) -> list[Look]:
        """All clients whose home is on this host."""
        return await self.run(self._all)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _look(self, client: str, shard: int, thorough: bool) -> Look:
        return self._read(client, shard, lambda view: self._look_at(client, view, thorough))

    def _read(self, client: str, shard: int, work: Callable[[HomeView], T]) -> T:
        how = self._how_gone(client, shard)
        if how is None:
            try:
                with open_home(self._root, client, shard) as view:
                    return work(view)
            except (sqlite3.OperationalError, Problem):
                # Deleted under the reader's feet? The tombstone came before.
                how = self._how_gone(client, shard)
                if how is None:
                    raise
        self._failed.pop(client, None)
        raise gone(client, how)

    def _look_at(self, client: str, view: HomeView, thorough: bool) -> Look:
        status = view.status()
        if status is None:
            raise unknown_client(client)
        dataset = datasets().get(status.spec.dataset)
        rows = {each.name: view.answer_count(each) for each in dataset.queries} if dataset else {}
        return Look(status, rows, status.failed or self._failure(client, thorough))

    def _failure(self, client: str, thorough: bool) -> str | None:
        if client not in self._failed and thorough:
            reason = next(iter(failures(self._root, client)), None)
            if reason is not None:
                while len(self._failed) >= MAX_FAILURES:
                    del self._failed[next(iter(self._failed))]
                self._failed[client] = reason
        return self._failed.get(client)

    def _how_gone(self, client: str, shard: int) -> str | None:
        with open_home(self._root, client, shard) as view:
            return view.how_gone()

    def _all(self) -> list[Look]:
        looks = []
        for path in sorted((self._root / "clients").glob(f"*/{HOME}-*.db")):
            shard = path.stem.removeprefix(f"{HOME}-")
            try:
                looks.append(self._look(path.parent.name, int(shard), False))
            except (Problem, sqlite3.Error, ValueError):
                # Gone since, just being made, or broken: nothing that can be listed.
                continue
        return looks


@contextmanager
def open_home(root: Path, client: str, shard: int) -> Iterator[HomeView]:
    view = HomeView(root, client, shard)
    try:
        yield view
    finally:
        view.close()


class Neighbours:
    """The gateways of the other hosts. They trust that tokens were checked here."""

    def __init__(self, config: GatewayConfig, cluster: str) -> None:
        self._gateways = config.gateways
        self._cluster = cluster
        limits = httpx.Limits(max_connections=config.max_connections, max_keepalive_connections=32)
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
        self._http = httpx.AsyncClient(trust_env=False, timeout=timeout, limits=limits)

    async def forward(self, request: Request, caller: Caller, url: str, body: bytes) -> Response:
        """The answer of the gateway at this URL, as it comes."""
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
            log.warning("the gateway %s cannot be reached: %r", url, error)
            raise _away() from None
        kept = {k: answer.headers[k] for k in _PASSED_BACK if k in answer.headers}
        return StreamingResponse(
            answer.aiter_raw(),
            answer.status_code,
            kept | {"Cache-Control": "no-store"},
            background=BackgroundTask(answer.aclose),
        )

    async def ask(
        self, caller: Caller, url: str, path: str, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """The answer to a GET; Problem if the gateway cannot be reached."""
        try:
            return await self._http.get(url + path, headers=self._headers(caller) | (headers or {}))
        except httpx.HTTPError as error:
            log.warning("the gateway %s cannot be reached: %r", url, error)
            raise _away() from None

    async def ask_all(self, path: str) -> AsyncIterator[tuple[str, Any | None]]:
        """(host, what it answered) for every other host; None for those that did not answer."""
        hosts = list(self._gateways)
        answers = await asyncio.gather(*(self._ask_one(host, path) for host in hosts))
        for host, answer in zip(hosts, answers, strict=True):
            yield host, answer

    async def _ask_one(self, host: str, path: str) -> Any | None:
        try:
            answer = await self._http.get(
                self._gateways[host] + path,
                headers={CLUSTER_HEADER: self._cluster},
                timeout=ASK_SECONDS,
            )
            return answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            return None

    async def close(self) -> None:
        await self._http.aclose()

    def _headers(self, caller: Caller) -> dict[str, str]:
        headers = {CLUSTER_HEADER: self._cluster, "Accept-Encoding": "identity"}
        if caller.operator:
            headers[OPERATOR_HEADER] = "1"
        if caller.secret is not None:
            headers[SECRET_HEADER] = caller.secret
        return headers


def _away() -> Problem:
    return Problem(503, "home_away", "the host of the client's home cannot be reached; try again")
