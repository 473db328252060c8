"""The homes of clients on this host.

All reading happens in threads, with databases that are closed again at once: their worker deletes
them when the client is gone.
"""

import asyncio
import math
import os
import re
import sqlite3
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from booksan.clock import Clock
from booksan.datasets import datasets
from booksan.gateway.access import (
    CHALLENGE_HEADER,
    CLUSTER_HEADER,
    Call,
    Caller,
    CallSigner,
    Vouched,
)
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Gone, Problem, tell, unknown_client
from booksan.home import HomeStatus, HomeView
from booksan.shards import shard_of
from booksan.spec import HOME
from booksan.state.readers import failures

if TYPE_CHECKING:
    import httpx


T = TypeVar("T")

#: Threads that read databases.
READERS = 8
#: Seconds between two looks at the other shards of this host: there are many, and what they note
#: reaches the home as a message in nearly all cases.
FAILURE_SECONDS = 5.0
#: Clients whose last look is remembered.
MAX_REMEMBERED = 1000


@dataclass(frozen=True)
class Snapshot:
    """What a home says of a client at one moment."""

    status: HomeStatus
    #: Rows of each answer that have come.
    rows: dict[str, int] = field(default_factory=dict)
    #: Why the run has failed, as its home or another shard of this host knows it.
    failed: str | None = None

    @property
    def over(self) -> bool:
        return self.status.done or self.failed is not None


class FailureCache:
    """Failures that never reached the home, because a shard could not even read whose they are."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        #: When each client was last looked for, and what was found: it must not vanish again.
        self._found: dict[str, tuple[float, str | None]] = {}

    def reason(self, client: str) -> str | None:
        moment, reason = self._found.get(client, (-math.inf, None))
        if reason is None and time.monotonic() - moment >= FAILURE_SECONDS:
            reason = next(iter(failures(self._root, client)), None)
            with self._lock:
                self._found[client] = (time.monotonic(), reason)
                while len(self._found) > MAX_REMEMBERED:
                    del self._found[next(iter(self._found))]
        return reason

    def forget(self, client: str) -> None:
        with self._lock:
            self._found.pop(client, None)


class Homes:
    """The homes on this host."""

    def __init__(self, data_dir: Path, config: GatewayConfig, keys: Sequence[bytes]) -> None:
        self._root = data_dir
        self._threads = ThreadPoolExecutor(READERS, "home")
        self._key = keys[0]
        self._homes = config.homes
        self._count = config.shards[HOME]
        self._failures = FailureCache(data_dir)
        #: The time by which runs on this host expire.
        self.clock = Clock(data_dir)
        #: Clients whose answers are complete: they stay so until they are gone.
        self._done: set[str] = set()

    @property
    def root(self) -> Path:
        return self._root

    def shard(self, client: str) -> int:
        """The home of a client that is not pinned to other shard numbers by a ticket."""
        return shard_of(client, self._count)

    @property
    def are_one(self) -> bool:
        return len(self._homes) == 1

    def known_shard(self, client: str) -> int | None:
        """The home on this host that has the client, whatever the number of homes is now."""
        names = (self._root / "clients" / client).glob(f"{HOME}-*.db")
        found = [path.stem.removeprefix(f"{HOME}-") for path in names]
        shards = sorted(int(one) for one in found if one.isdecimal() and int(one) in self._homes)
        present = self.shard(client)
        return present if present in shards else next(iter(shards), None)

    def url(self, shard: int) -> str:
        """Of the gateway that can read this home; empty for this one."""
        if shard not in self._homes:
            raise Problem(403, "wrong_ticket", f"this cluster has no {HOME}.{shard}")
        return self._homes[shard]

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def snapshot(self, client: str, shard: int) -> Snapshot:
        """Raises Problem if the client is gone or unknown."""
        return await self.run(self._snapshot, client, shard)

    async def read(self, client: str, shard: int, work: Callable[[HomeView], T]) -> T:
        """Whatever `work` reads of a client that is there."""
        return await self.run(self._read, client, shard, work)

    async def how_gone(self, client: str, shard: int) -> str | None:
        return await self.run(self._how_gone, client, shard)

    async def all(self) -> list[Snapshot]:
        """All clients whose home is on this host."""
        return await self.run(self._all)

    async def unfinished(self) -> set[str]:
        """Those of them that are at work."""
        return await self.run(self._unfinished)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _snapshot(self, client: str, shard: int) -> Snapshot:
        return self._read(client, shard, self._snapshot_of)

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
        self._failures.forget(client)
        with open_home(self._root, client, shard) as view:
            raise Gone(client, how, view.owner_of_gone())

    def _snapshot_of(self, view: HomeView) -> Snapshot:
        status = view.status()
        if status is None:
            raise unknown_client(view.client)
        dataset = datasets().get(status.spec.dataset)
        rows = {each.name: view.answer_count(each) for each in dataset.queries} if dataset else {}
        failed = status.failed
        if failed is None and not status.done:
            failed = self._failures.reason(view.client)
        return Snapshot(status.signed_anew(self._key), rows, failed)

    def _how_gone(self, client: str, shard: int) -> str | None:
        with open_home(self._root, client, shard) as view:
            return view.how_gone()

    def _all(self) -> list[Snapshot]:
        return [
            snapshot for client, shard in self._found() if (snapshot := self._listed(client, shard))
        ]

    def _unfinished(self) -> set[str]:
        """Without opening the databases of runs that wait to be fetched: they may be thousands."""
        found = dict(self._found())
        self._done &= found.keys()
        unfinished = set()
        for client in found.keys() - self._done:
            snapshot = self._listed(client, found[client])
            if snapshot is not None and snapshot.status.done and snapshot.failed is None:
                self._done.add(client)
            elif snapshot is not None and not snapshot.over:
                unfinished.add(client)
        return unfinished

    def _found(self) -> list[tuple[str, int]]:
        paths = sorted((self._root / "clients").glob(f"*/{HOME}-*.db"))
        shards = ((path.parent.name, path.stem.removeprefix(f"{HOME}-")) for path in paths)
        return [(client, int(shard)) for client, shard in shards if shard.isdecimal()]

    def _listed(self, client: str, shard: int) -> Snapshot | None:
        try:
            return self._snapshot(client, shard)
        except (Problem, sqlite3.Error):
            # Gone since, just being made, or broken: nothing that can be listed.
            return None


@contextmanager
def open_home(root: Path, client: str, shard: int) -> Iterator[HomeView]:
    view = HomeView(root, client, shard)
    try:
        yield view
    finally:
        view.close()


# The gateways of the other hosts, which are asked about the homes that are there.

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


class Peers:
    """They trust what this one says under the cluster's signature; secrets never travel on."""

    def __init__(self, config: GatewayConfig, word: CallSigner) -> None:
        self._gateways = config.gateways
        self._word = word
        self._most = config.max_connections
        #: The last challenge of each gateway.
        self._challenges: dict[str, str] = {}

    @cached_property
    def _http(self) -> "httpx.AsyncClient":
        """Made when a peer is first asked: a host that is alone need not load it."""
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


# Where the home of a client is that comes without its ticket.

HOME_PATH = "/internal/v1/homes"


async def home_of(homes: Homes, peers: Peers, caller: Caller, client: str) -> int:
    """The shard where its home is, or would be now.

    A run is pinned to the shard numbers that it began with. So another number of homes than at that
    time must not lead to a second home: all hosts are asked, once.
    """
    present = homes.shard(client)
    if homes.are_one:
        return present
    found = await homes.run(homes.known_shard, client)
    if found is not None or caller.gateway:
        return present if found is None else found
    async for _, answer in peers.ask_all(f"{HOME_PATH}/{client}"):
        if answer is not None and answer["shard"] is not None:
            return int(answer["shard"])
    return present
