"""The paths of the gateway, and what each of them does."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

import booksan
from booksan.answers import Format
from booksan.errors import BooksanError
from booksan.gateway import events, results
from booksan.gateway.access import Access, Caller
from booksan.gateway.batches import TICKET_HEADER, Batches, read_ticket
from booksan.gateway.bodies import MAX_JSON, read_body
from booksan.gateway.clients import Clients
from booksan.gateway.config import GatewayConfig
from booksan.gateway.creation import read_object, read_wanted, served
from booksan.gateway.describe import describe
from booksan.gateway.errors import Problem, problem_of
from booksan.gateway.homes import Homes, Look
from booksan.gateway.neighbours import Neighbours
from booksan.gateway.openapi import document
from booksan.gateway.parameters import (
    MAX_NUMBER,
    client_of,
    flag_of,
    format_of,
    name_of,
    number_of,
    page_of,
    query_of,
    wait_of,
)
from booksan.gateway.progress import local_progress, stages_of, stalled_of, whole_progress
from booksan.gateway.queues import Queues
from booksan.gateway.results import PAGE
from booksan.gateway.status import Watcher, state_of, status_of

Handler = Callable[[Request], Awaitable[Response]]

#: Bytes that must be free on the disk for the gateway to call itself healthy.
FREE_BYTES = 16 * 1024 * 1024
#: Seconds that an answer about health is good for.
HEALTH_SECONDS = 1.0


class Service:
    """Everything a request may need; one for the process."""

    def __init__(
        self, data_dir: Path, config: GatewayConfig, access: Access, secret: bytes
    ) -> None:
        self.config = config
        self.access = access
        self.secret = secret
        self.data_dir = data_dir
        self.datasets = served(config.shards)
        self.document = document(config)
        self.stopping = asyncio.Event()
        self.homes = Homes(data_dir, config)
        self.neighbours = Neighbours(config, access.cluster)
        self.queues = Queues(data_dir, config, secret)
        self.clients = Clients(config, self.homes, self.queues)
        self.batches = Batches(
            config, secret, self.homes, self.neighbours, self.queues, self.stopping
        )
        self._health: tuple[float, str] = (0.0, "")

    async def close(self) -> None:
        await self.neighbours.close()
        self.batches.close()
        self.clients.close()
        self.homes.close()
        self.queues.close()

    # -- about the service -------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        moment, status = self._health
        if time.monotonic() - moment > HEALTH_SECONDS:
            status = await self.homes.run(self._look_at_health)
            self._health = (time.monotonic(), status)
        body = {"status": status, "host": self.config.host, "version": booksan.__version__}
        return _json(body, 200 if status == "ok" else 503)

    def _look_at_health(self) -> str:
        try:
            self.queues.gateway().transport.depth("results.0")
        except BooksanError as error:
            return problem_of(error).code
        disk = os.statvfs(self.data_dir)
        return "ok" if disk.f_bavail * disk.f_frsize >= FREE_BYTES else "no_space"

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self.document)

    async def list_datasets(self, request: Request) -> Response:
        self.access.caller(request.headers)
        return _json({"datasets": [describe(each) for each in self.datasets.values()]})

    async def one_dataset(self, request: Request) -> Response:
        self.access.caller(request.headers)
        name = request.path_params["name"]
        if name not in self.datasets:
            known = ", ".join(self.datasets)
            raise Problem(404, "unknown_dataset", f"no such data set; there is: {known}")
        return _json(describe(self.datasets[name]))

    # -- clients -----------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        caller = self.access.caller(request.headers)
        caller.check_secret()
        body = await self._body(request)
        wanted = read_wanted(body, self.datasets)
        url = self.homes.url(self.homes.shard(wanted.client))
        if url and not caller.gateway:
            return await self.neighbours.forward(request, caller, url, body)
        look, begun = await self.clients.create(caller, wanted)
        return _json(status_of(look), 201 if begun else 200)

    async def list_clients(self, request: Request) -> Response:
        caller = self.access.caller(request.headers)
        if not caller.operator:
            raise Problem(403, "not_operator", "only the operator may list clients")
        query_of(request, ())
        found = await self._own_clients()
        missing = []
        async for host, answer in self.neighbours.ask_all("/internal/v1/clients"):
            if answer is None:
                missing.append(host)
            else:
                found += answer["clients"]
        return _json({"clients": sorted(found, key=lambda each: each["id"]), "missing": missing})

    async def status(self, request: Request) -> Response:
        query = query_of(request, ("stages", "wait", "seen"))
        stages = flag_of(query, "stages")
        wait = wait_of(query)
        home = await self._home(request, operator_may=True)
        if isinstance(home, Response):
            return home
        caller, client, shard = home
        look = await self.homes.look(client, shard)
        caller.check_owner(look.status.spec, operator_may=True)
        status = status_of(look)
        if wait and status["version"] == query.get("seen"):
            watcher = Watcher(self.homes, client, shard, self.stopping)
            look, status = await watcher.news(query["seen"], wait, _connected(request))
        if stages:
            status |= await self._stages(client, look)
        return _json(status)

    async def events(self, request: Request) -> Response:
        query_of(request, ())
        home = await self._home(request, operator_may=True)
        if isinstance(home, Response):
            return home
        caller, client, shard = home
        watcher = Watcher(self.homes, client, shard, self.stopping)
        look = await watcher.look()
        caller.check_owner(look.status.spec, operator_may=True)
        return events.response(watcher, self.stopping)

    async def results(self, request: Request) -> Response:
        query = query_of(request, ("format", "offset", "limit"))
        form, page = format_of(query, (PAGE, *Format)), page_of(query)
        name = name_of(request, "query")
        home = await self._readable(request)
        if isinstance(home, Response):
            return home
        _, client, shard = home
        if form == PAGE:
            found = await self.homes.read(
                client, shard, lambda view: results.answer_page(view, client, name, page)
            )
            return _json(found)
        made = await self.homes.read(
            client,
            shard,
            lambda view: results.answer_file(view, client, name, Format(form), self.data_dir),
        )
        return results.send(self.homes, made)

    async def rejected(self, request: Request) -> Response:
        query = query_of(request, ("format", "source", "offset", "limit"))
        form, page = format_of(query, (PAGE, Format.CSV)), page_of(query)
        source = query.get("source")
        home = await self._readable(request)
        if isinstance(home, Response):
            return home
        _, client, shard = home
        if form == PAGE:
            found = await self.homes.read(
                client, shard, lambda view: results.rejected_page(view, client, source, page)
            )
            return _json(found)
        made = await self.homes.read(
            client,
            shard,
            lambda view: results.rejected_file(view, client, source, self.data_dir),
        )
        return results.send(self.homes, made)

    async def acknowledge(self, request: Request) -> Response:
        return await self._release(request, "done")

    async def cancel(self, request: Request) -> Response:
        return await self._release(request, "cancelled")

    # -- uploads -----------------------------------------------------------------------------

    async def put(self, request: Request) -> Response:
        caller = self.access.caller(request.headers)
        caller.check_secret()
        client, source = client_of(request), name_of(request, "source")
        number = number_of("the number of the batch", request.path_params["n"])
        admitted = await self.batches.admit(request, caller, client, source)
        receipt = await self.batches.put(request, admitted, source, number)
        return _json({"rows": receipt.rows, "rejected": receipt.rejected})

    async def end(self, request: Request) -> Response:
        caller = self.access.caller(request.headers)
        caller.check_secret()
        client, source = client_of(request), name_of(request, "source")
        body = read_object(await self._body(request), {"batches": int}, ("batches",))
        if not 0 <= body["batches"] <= MAX_NUMBER:
            raise Problem(422, "unusable", f"batches must be from 0 to {MAX_NUMBER}")
        admitted = await self.batches.admit(request, caller, client, source)
        await self.batches.end(admitted, source, body["batches"])
        return _json({})

    # -- other gateways ----------------------------------------------------------------------

    async def internal_progress(self, request: Request) -> Response:
        self._only_gateways(request)
        return _json(await self.homes.run(local_progress, self.data_dir, client_of(request)))

    async def internal_clients(self, request: Request) -> Response:
        self._only_gateways(request)
        return _json({"clients": await self._own_clients()})

    # -- helpers -----------------------------------------------------------------------------

    def _only_gateways(self, request: Request) -> None:
        if not self.access.caller(request.headers).gateway:
            raise Problem(403, "not_gateway", "only gateways of this cluster may ask this")

    async def _body(self, request: Request) -> bytes:
        return await read_body(request, MAX_JSON, self.config.body_seconds)

    async def _home(
        self, request: Request, *, operator_may: bool
    ) -> tuple[Caller, str, int] | Response:
        """Where the client's home is read on this host; otherwise the answer of the other host."""
        caller = self.access.caller(request.headers)
        caller.check_secret(operator_may=operator_may)
        client = client_of(request)
        ticket = request.headers.get(TICKET_HEADER)
        if ticket is None:
            shard = self.homes.shard(client)
        else:
            shard = read_ticket(self.secret, ticket, client).home
        url = self.homes.url(shard)
        if url and not caller.gateway:
            return await self.neighbours.forward(request, caller, url, b"")
        return caller, client, shard

    async def _readable(self, request: Request) -> tuple[Caller, str, int] | Response:
        """The same, for one who may read the client's results."""
        home = await self._home(request, operator_may=True)
        if not isinstance(home, Response):
            caller, client, shard = home
            look = await self.homes.look(client, shard)
            caller.check_owner(look.status.spec, operator_may=True)
        return home

    async def _release(self, request: Request, how: str) -> Response:
        query_of(request, ())
        cancel = how == "cancelled"
        home = await self._home(request, operator_may=cancel)
        if isinstance(home, Response):
            return home
        caller, client, shard = home
        try:
            look = await self.homes.look(client, shard)
        except Problem as problem:
            if problem.code != "gone":
                raise
            return _json({"how": problem.more["how"]})
        caller.check_owner(look.status.spec, operator_may=cancel)
        if not cancel and not look.over:
            raise Problem(409, "not_complete", f"the run of {client} is not done; cancel it first")
        return _json({"how": await self.clients.release(look, shard, how)})

    async def _stages(self, client: str, look: Look) -> dict[str, Any]:
        found = await whole_progress(self.homes, self.neighbours, client)
        more: dict[str, Any] = {
            "stages": stages_of(look.status.spec, found.streams),
            "stalled": stalled_of(found, over=look.over, now=time.time()),
        }
        if found.missing_hosts:
            more["missing_hosts"] = list(found.missing_hosts)
        if look.failed is None and found.failures:
            more |= {"state": "failed", "failed": found.failures[0]}
        return more

    async def _own_clients(self) -> list[dict[str, Any]]:
        return [
            {
                "id": look.status.spec.client,
                "dataset": look.status.spec.dataset,
                "state": state_of(look),
                "expires": look.status.spec.expires,
                "host": self.config.host,
            }
            for look in await self.homes.all()
        ]

    def routes(self) -> Router:
        client = "/v1/clients/{id}"
        paths: dict[str, dict[str, Handler]] = {
            "/v1/health": {"GET": self.health},
            "/v1/openapi.json": {"GET": self.openapi},
            "/v1/datasets": {"GET": self.list_datasets},
            "/v1/datasets/{name}": {"GET": self.one_dataset},
            "/v1/clients": {"GET": self.list_clients, "POST": self.create},
            client: {"GET": self.status, "DELETE": self.cancel},
            f"{client}/events": {"GET": self.events},
            f"{client}/results/{{query}}": {"GET": self.results},
            f"{client}/rejected": {"GET": self.rejected},
            f"{client}/acknowledge": {"POST": self.acknowledge},
            f"{client}/sources/{{source}}/batches/{{n}}": {"PUT": self.put},
            f"{client}/sources/{{source}}/end": {"POST": self.end},
            "/internal/v1/progress/{id}": {"GET": self.internal_progress},
            "/internal/v1/clients": {"GET": self.internal_clients},
        }
        return Router(
            [Route(path, _by_method(has), methods=list(has)) for path, has in paths.items()],
            redirect_slashes=False,
        )


def _by_method(handlers: Mapping[str, Handler]) -> Handler:
    async def handle(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await handlers[method](request)

    return handle


def _json(body: Any, status: int = 200) -> Response:
    return JSONResponse(body, status, {"Cache-Control": "no-store"})


def _connected(request: Request) -> Callable[[], Awaitable[bool]]:
    async def connected() -> bool:
        return not await request.is_disconnected()

    return connected
