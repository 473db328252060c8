"""The paths of the gateway: those of runs, and those about the service itself."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

import booksan
from booksan.errors import BooksanError
from booksan.gateway.describe import describe
from booksan.gateway.errors import Problem, problem_of
from booksan.gateway.finding import HOME_PATH
from booksan.gateway.openapi import document
from booksan.gateway.parameters import client_of, query_of
from booksan.gateway.progress import local_progress
from booksan.gateway.runs import Runs
from booksan.gateway.service import Elsewhere, Service, json_answer
from booksan.gateway.status import state_of
from booksan.spec import HOME

Handler = Callable[[Request], Awaitable[Response]]

#: Bytes that must be free on the disk for the gateway to call itself healthy.
FREE_BYTES = 16 * 1024 * 1024
#: Seconds in which another gateway must say that it has a home: whoever asks for health waits.
HOME_SECONDS = 2.0
#: Seconds that an answer about health is good for.
HEALTH_SECONDS = 1.0


class About:
    """What the service tells of itself, of its data sets, and of all clients together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._document = document(service.config)
        self._health: tuple[float, dict[str, Any]] = (0.0, {})
        self._looking = asyncio.Lock()

    async def health(self, request: Request) -> Response:
        # One look for all who ask: when the broker is silent a look takes long, and whoever asks
        # about a run needs the threads.
        async with self._looking:
            moment, found = self._health
            if not found or time.monotonic() - moment > HEALTH_SECONDS:
                found = await self._find_health()
                self._health = (time.monotonic(), found)
        host = self._service.config.host
        body = {**found, "host": host, "version": booksan.__version__}
        return json_answer(body, 200 if found["status"] == "ok" else 503)

    async def _find_health(self) -> dict[str, Any]:
        status = await self._service.homes.run(self._look_at_health)
        away = await self._homes_away() if status == "ok" else []
        return {"status": "home_away", "away": away} if away else {"status": status}

    async def _homes_away(self) -> list[str]:
        """The homes of clients that cannot be reached from here."""
        homes = {shard: url for shard, url in self._service.config.homes.items() if url}
        urls = sorted(set(homes.values()))
        ask = self._service.neighbours.word_of
        words = await asyncio.gather(
            *(ask(url, "/internal/v1/homes", HOME_SECONDS) for url in urls)
        )
        there = {url: word["homes"] if word else [] for url, word in zip(urls, words, strict=True)}
        return [
            f"{HOME}.{shard}" for shard, url in sorted(homes.items()) if shard not in there[url]
        ]

    def _look_at_health(self) -> str:
        try:
            self._service.queues.gateway().transport.depth("results.0")
        except BooksanError as error:
            return problem_of(error).code
        disk = os.statvfs(self._service.data_dir)
        return "ok" if disk.f_bavail * disk.f_frsize >= FREE_BYTES else "no_space"

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self._document)

    async def datasets(self, request: Request) -> Response:
        self._service.access.caller(request)
        return json_answer({"datasets": [describe(each) for each in self._known().values()]})

    async def dataset(self, request: Request) -> Response:
        self._service.access.caller(request)
        name = request.path_params["name"]
        if name not in self._known():
            known = ", ".join(self._known())
            raise Problem(404, "unknown_dataset", f"no such data set; there is: {known}")
        return json_answer(describe(self._known()[name]))

    async def clients(self, request: Request) -> Response:
        if not self._service.access.caller(request).operator:
            raise Problem(403, "not_operator", "only the operator may list clients")
        query_of(request, ())
        found = await self._own_clients()
        missing = []
        async for host, answer in self._service.neighbours.ask_all("/internal/v1/clients"):
            if answer is None:
                missing.append(host)
            else:
                found += answer["clients"]
        found.sort(key=lambda client: str(client["id"]))
        return json_answer({"clients": found, "missing": missing})

    async def internal_clients(self, request: Request) -> Response:
        self._only_gateways(request)
        return json_answer({"clients": await self._own_clients()})

    async def internal_homes(self, request: Request) -> Response:
        self._only_gateways(request)
        homes = self._service.config.homes
        return json_answer({"homes": [shard for shard, url in homes.items() if not url]})

    async def internal_progress(self, request: Request) -> Response:
        self._only_gateways(request)
        homes = self._service.homes
        arguments = (homes.root, client_of(request), homes.clock.now())
        return json_answer(await homes.run(local_progress, *arguments))

    async def internal_home(self, request: Request) -> Response:
        self._only_gateways(request)
        homes = self._service.homes
        return json_answer({"shard": await homes.run(homes.known_shard, client_of(request))})

    def _known(self) -> Mapping[str, Any]:
        return self._service.datasets

    def _only_gateways(self, request: Request) -> None:
        if not self._service.access.caller(request).gateway:
            raise Problem(403, "not_gateway", "only gateways of this cluster may ask this")

    async def _own_clients(self) -> list[dict[str, Any]]:
        return [
            {
                "id": look.status.spec.client,
                "dataset": look.status.spec.dataset,
                "state": state_of(look),
                "expires": look.status.spec.expires,
                "host": self._service.config.host,
            }
            for look in await self._service.homes.all()
        ]


def routes(service: Service) -> Router:
    about, runs = About(service), Runs(service)
    run = "/v1/clients/{id}"
    paths: dict[str, dict[str, Handler]] = {
        "/v1/health": {"GET": about.health},
        "/v1/openapi.json": {"GET": about.openapi},
        "/v1/datasets": {"GET": about.datasets},
        "/v1/datasets/{name}": {"GET": about.dataset},
        "/v1/clients": {"GET": about.clients, "POST": runs.create},
        run: {"GET": runs.status, "DELETE": runs.cancel},
        f"{run}/events": {"GET": runs.events},
        f"{run}/results/{{query}}": {"GET": runs.results},
        f"{run}/rejected": {"GET": runs.rejected},
        f"{run}/acknowledge": {"POST": runs.acknowledge},
        f"{run}/sources/{{source}}/batches/{{n}}": {"PUT": runs.put},
        f"{run}/sources/{{source}}/end": {"POST": runs.end},
        "/internal/v1/homes": {"GET": about.internal_homes},
        "/internal/v1/clients": {"GET": about.internal_clients},
        f"{HOME_PATH}/{{id}}": {"GET": about.internal_home},
        "/internal/v1/progress/{id}": {"GET": about.internal_progress},
    }
    return Router(
        [Route(path, _by_method(has), methods=list(has)) for path, has in paths.items()],
        redirect_slashes=False,
    )


def _by_method(handlers: Mapping[str, Handler]) -> Handler:
    async def handle(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        try:
            return await handlers[method](request)
        except Elsewhere as elsewhere:
            return elsewhere.response

    return handle
