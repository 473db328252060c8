"""Everything that a request may need: made once for the process, ended with it."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import to_builtins
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from booksan.datasets import broken_datasets
from booksan.gateway.access import Access, Caller
from booksan.gateway.bodies import MAX_JSON, read_body
from booksan.gateway.clients import Clients, served
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Gone
from booksan.gateway.homes import Homes, Peers, Snapshot, home_of
from booksan.gateway.results import client_of
from booksan.gateway.status import Watcher
from booksan.gateway.uploads import TICKET_HEADER, Batches, Queues, read_ticket

log = logging.getLogger("booksan.gateway")


class HomeRequest(NamedTuple):
    """A client whose home is on this host, and who asks about it."""

    caller: Caller
    client: str
    shard: int


class Elsewhere(Exception):
    """The home is on another host, and this is what its gateway answered."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class Service:
    def __init__(
        self, data_dir: Path, config: GatewayConfig, access: Access, keys: Sequence[bytes]
    ) -> None:
        self.config = config
        self.access = access
        self.data_dir = data_dir
        self.datasets = served(config.shards)
        for name, reason in broken_datasets().items():
            log.warning("the data set %s is left out: %s", name, reason)
        self.stopping = asyncio.Event()
        self.homes = Homes(data_dir, config, keys)
        self.peers = Peers(config, access.word)
        self.queues = Queues(data_dir, config, keys)
        self.clients = Clients(config, self.homes, self.queues)
        self.batches = Batches(config, keys, self.homes, self.peers, self.queues, self.stopping)
        self._keys = keys

    async def close(self) -> None:
        await self.peers.close()
        self.batches.close()
        self.clients.close()
        self.homes.close()
        self.queues.close()

    async def body(self, request: Request) -> bytes:
        """Of a request that is not a batch."""
        return await read_body(request, MAX_JSON, self.config.body_seconds)

    async def place(self, request: Request, *, operator_may: bool = False) -> HomeRequest:
        """Raises Elsewhere with the answer if the client's home is on another host."""
        caller = self.access.caller(request)
        caller.check_secret(operator_may=operator_may)
        client = client_of(request)
        shard = await self._shard(request, caller, client)
        url = self.homes.url(shard)
        if url and not caller.gateway:
            raise Elsewhere(await self.peers.forward(request, caller, client, url))
        return HomeRequest(caller, client, shard)

    async def snapshot(self, place: HomeRequest, *, operator_may: bool = False) -> Snapshot:
        """What the home says, if it is for this caller to know."""
        try:
            snapshot = await self.homes.snapshot(place.client, place.shard)
        except Gone as gone:
            place.caller.check_gone(place.client, gone, operator_may=operator_may)
            raise
        place.caller.check_owner(snapshot.status.spec, operator_may=operator_may)
        return snapshot

    def watcher(self, place: HomeRequest) -> Watcher:
        return Watcher(self.homes, place.client, place.shard, self.stopping)

    async def _shard(self, request: Request, caller: Caller, client: str) -> int:
        """A run is pinned to the shard numbers that it began with; its ticket knows them."""
        ticket = request.headers.get(TICKET_HEADER)
        if ticket is None:
            return await home_of(self.homes, self.peers, caller, client)
        return read_ticket(self._keys, ticket, client).home


def json_answer(body: Any, status: int = 200) -> Response:
    return JSONResponse(to_builtins(body), status, {"Cache-Control": "no-store"})
