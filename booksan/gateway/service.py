"""Everything that a request may need: made once for the process, ended with it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from booksan.gateway.access import Access, Caller
from booksan.gateway.batches import TICKET_HEADER, Batches, read_ticket
from booksan.gateway.bodies import MAX_JSON, read_body
from booksan.gateway.clients import Clients
from booksan.gateway.config import GatewayConfig
from booksan.gateway.creation import served
from booksan.gateway.errors import Gone
from booksan.gateway.finding import home_of
from booksan.gateway.homes import Homes, Look
from booksan.gateway.neighbours import Neighbours
from booksan.gateway.parameters import client_of
from booksan.gateway.queues import Queues
from booksan.gateway.status import Watcher


class Place(NamedTuple):
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
        self.stopping = asyncio.Event()
        self.homes = Homes(data_dir, config, keys)
        self.neighbours = Neighbours(config, access.word)
        self.queues = Queues(data_dir, config, keys)
        self.clients = Clients(config, self.homes, self.queues)
        self.batches = Batches(
            config, keys, self.homes, self.neighbours, self.queues, self.stopping
        )
        self._keys = keys

    async def close(self) -> None:
        await self.neighbours.close()
        self.batches.close()
        self.clients.close()
        self.homes.close()
        self.queues.close()

    async def body(self, request: Request) -> bytes:
        """Of a request that is not a batch."""
        return await read_body(request, MAX_JSON, self.config.body_seconds)

    async def place(self, request: Request, *, operator_may: bool = False) -> Place:
        """Raises Elsewhere with the answer if the client's home is on another host."""
        caller = self.access.caller(request)
        caller.check_secret(operator_may=operator_may)
        client = client_of(request)
        shard = await self._shard(request, caller, client)
        url = self.homes.url(shard)
        if url and not caller.gateway:
            raise Elsewhere(await self.neighbours.forward(request, caller, client, url))
        return Place(caller, client, shard)

    async def look(self, place: Place, *, operator_may: bool = False) -> Look:
        """What the home says, if it is for this caller to know."""
        try:
            look = await self.homes.look(place.client, place.shard)
        except Gone as gone:
            place.caller.check_gone(place.client, gone, operator_may=operator_may)
            raise
        place.caller.check_owner(look.status.spec, operator_may=operator_may)
        return look

    def watcher(self, place: Place) -> Watcher:
        return Watcher(self.homes, place.client, place.shard, self.stopping)

    async def _shard(self, request: Request, caller: Caller, client: str) -> int:
        """A run is pinned to the shard numbers that it began with; its ticket knows them."""
        ticket = request.headers.get(TICKET_HEADER)
        if ticket is None:
            return await home_of(self.homes, self.neighbours, caller, client)
        return read_ticket(self._keys, ticket, client).home


def json_answer(body: Any, status: int = 200) -> Response:
    return JSONResponse(body, status, {"Cache-Control": "no-store"})
