"""The paths of the gateway: those of runs, those about the service itself, and its health."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec import UNSET, convert
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

import booksan
from booksan.answers import Format
from booksan.datasets import describe
from booksan.errors import BooksanError
from booksan.gateway import results, status
from booksan.gateway.clients import no_dataset, read_shape, read_wanted
from booksan.gateway.errors import Gone, Problem, problem_of
from booksan.gateway.homes import HOME_PATH, Snapshot, home_of
from booksan.gateway.openapi import document
from booksan.gateway.progress import local_progress, stages_of, stalled_of, whole_progress
from booksan.gateway.results import (
    PAGE,
    client_of,
    flag_of,
    format_of,
    name_of,
    number_of,
    page_of,
    query_of,
    wait_of,
)
from booksan.gateway.service import Elsewhere, HomeRequest, Service, json_answer
from booksan.gateway.status import state_of, status_of
from booksan.home import HomeView
from booksan.spec import HOME
from booksan_common import shapes
from booksan_common.shapes import Health as HealthAnswer

# Whether clients can be served here: the queues, the disk, and the homes of all clients.

OK = "ok"
#: Bytes that must be free on the disk for the gateway to call itself healthy.
FREE_BYTES = 16 * 1024 * 1024
#: Seconds in which another gateway must say that it has a home: whoever asks for health waits.
HOME_SECONDS = 2.0
#: Seconds that an answer about health is good for.
HEALTH_SECONDS = 1.0


class Health:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._found: tuple[float, HealthAnswer] | None = None
        self._looking = asyncio.Lock()

    async def shared(self) -> HealthAnswer:
        """One look for all who ask: when the broker is silent a look takes long, and whoever asks
        about a run needs the threads."""
        async with self._looking:
            if self._found is None or time.monotonic() - self._found[0] > HEALTH_SECONDS:
                found = await self.snapshot()
                self._found = (time.monotonic(), found)
        return self._found[1]

    async def snapshot(self) -> HealthAnswer:
        status = await self._service.homes.run(self._look_here)
        away = await self._homes_away() if status == OK else []
        return HealthAnswer(
            "home_away" if away else status,
            self._service.config.host,
            booksan.__version__,
            tuple(away) or UNSET,
        )

    async def _homes_away(self) -> list[str]:
        """The homes of clients that cannot be reached from here."""
        homes = {shard: url for shard, url in self._service.config.homes.items() if url}
        urls = sorted(set(homes.values()))
        ask = self._service.peers.word_of
        words = await asyncio.gather(
            *(ask(url, "/internal/v1/homes", HOME_SECONDS) for url in urls)
        )
        there = {url: word["homes"] if word else [] for url, word in zip(urls, words, strict=True)}
        return [
            f"{HOME}.{shard}" for shard, url in sorted(homes.items()) if shard not in there[url]
        ]

    def _look_here(self) -> str:
        try:
            self._service.queues.gateway().transport.depth("results.0")
        except BooksanError as error:
            return problem_of(error).code
        disk = os.statvfs(self._service.data_dir)
        return OK if disk.f_bavail * disk.f_frsize >= FREE_BYTES else "no_space"


def words_of(found: HealthAnswer) -> str:
    """Why it is not well, for a person."""
    if found.away is not UNSET:
        return f"{', '.join(found.away)} cannot be reached; start the host that runs it"
    return {"no_space": "no space left on its disk"}.get(
        found.status, f"its queues cannot be reached ({found.status})"
    )


# The paths of one client's run.

T = TypeVar("T")


class Runs:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def create(self, request: Request) -> Response:
        service = self._service
        caller = service.access.caller(request)
        caller.check_secret()
        body = await service.body(request)
        caller.check_body(body)
        wanted = read_wanted(body, service.datasets)
        shard = await home_of(service.homes, service.peers, caller, wanted.client)
        url = service.homes.url(shard)
        if url and not caller.gateway:
            raise Elsewhere(await service.peers.forward(request, caller, wanted.client, url, body))
        snapshot, begun = await service.clients.create(caller, wanted, shard)
        return json_answer(status_of(snapshot), 201 if begun else 200)

    async def status(self, request: Request) -> Response:
        query = query_of(request, ("stages", "wait", "seen"))
        stages, wait = flag_of(query, "stages"), wait_of(query)
        place = await self._service.place(request, operator_may=True)
        snapshot = await self._service.snapshot(place, operator_may=True)
        status = status_of(snapshot)
        if wait and status.version == query.get("seen"):
            watcher = self._service.watcher(place)
            snapshot, status = await watcher.news(query["seen"], wait, _connected(request))
        if stages:
            status = await self._with_stages(status, place, snapshot)
        return json_answer(status)

    async def events(self, request: Request) -> Response:
        query_of(request, ())
        place = await self._service.place(request, operator_may=True)
        await self._service.snapshot(place, operator_may=True)
        return status.response(self._service.watcher(place), self._service.stopping)

    async def results(self, request: Request) -> Response:
        query = query_of(request, ("format", "offset", "limit"))
        form, page = format_of(query, (PAGE, *Format)), page_of(query)
        name, place = name_of(request, "query"), self._service.data_dir
        if form == PAGE:
            return json_answer(
                await self._read(request, lambda view: results.answer_page(view, name, page))
            )
        made = await self._read(
            request, lambda view: results.answer_file(view, name, Format(form), place)
        )
        return results.send(self._service.homes, made)

    async def rejected(self, request: Request) -> Response:
        query = query_of(request, ("format", "source", "offset", "limit"))
        form, page = format_of(query, (PAGE, Format.CSV)), page_of(query)
        source, place = query.get("source"), self._service.data_dir
        if form == PAGE:
            return json_answer(
                await self._read(request, lambda view: results.rejected_page(view, source, page))
            )
        made = await self._read(request, lambda view: results.rejected_file(view, source, place))
        return results.send(self._service.homes, made)

    async def acknowledge(self, request: Request) -> Response:
        query_of(request, ())
        place = await self._service.place(request)
        snapshot = await self._still_there(place)
        if isinstance(snapshot, Response):
            return snapshot
        if not snapshot.over:
            text = f"the run of {place.client} is not done; wait for it, or cancel it"
            raise Problem(409, "not_complete", text)
        how = await self._service.clients.release(snapshot, place.shard, "done")
        return json_answer(shapes.Gone(how))

    async def cancel(self, request: Request) -> Response:
        query_of(request, ())
        place = await self._service.place(request, operator_may=True)
        snapshot = await self._still_there(place, operator_may=True)
        if isinstance(snapshot, Response):
            return snapshot
        how = await self._service.clients.release(snapshot, place.shard, "cancelled")
        return json_answer(shapes.Gone(how))

    async def put(self, request: Request) -> Response:
        caller = self._service.access.caller(request)
        caller.check_secret()
        client, source = client_of(request), name_of(request, "source")
        number = number_of("the number of the batch", request.path_params["n"])
        batches = self._service.batches
        spec = await batches.admit(request, caller, client, source)
        return json_answer(await batches.put(request, spec, source, number))

    async def end(self, request: Request) -> Response:
        caller = self._service.access.caller(request)
        caller.check_secret()
        client, source = client_of(request), name_of(request, "source")
        batches = self._service.batches
        spec = await batches.admit(request, caller, client, source)
        end = read_shape(shapes.End, await self._service.body(request))
        await batches.end(spec, source, end.batches)
        return json_answer(shapes.Nothing())

    async def _read(self, request: Request, work: Callable[[HomeView], T]) -> T:
        place = await self._service.place(request, operator_may=True)
        await self._service.snapshot(place, operator_may=True)
        return await self._service.homes.read(place.client, place.shard, work)

    async def _still_there(
        self, place: HomeRequest, *, operator_may: bool = False
    ) -> Snapshot | Response:
        """What the home says; of a run that has ended already, the answer that says how."""
        try:
            return await self._service.snapshot(place, operator_may=operator_may)
        except Gone as gone:
            return json_answer(shapes.Gone(gone.how))

    async def _with_stages(
        self, status: shapes.Status, place: HomeRequest, snapshot: Snapshot
    ) -> shapes.Status:
        service = self._service
        found = await whole_progress(service.homes, service.peers, place.client)
        if snapshot.failed is None and found.failures:
            status = replace(status, state="failed", failed=found.failures[0])
        return replace(
            status,
            stages=stages_of(snapshot.status.spec, found.streams),
            stalled=stalled_of(found, over=snapshot.over, now=service.homes.clock.now()),
            resend={} if snapshot.over else await service.batches.resend(found, snapshot.status),
            missing_hosts=found.missing_hosts or UNSET,
        )


def _connected(request: Request) -> Callable[[], Awaitable[bool]]:
    async def connected() -> bool:
        return not await request.is_disconnected()

    return connected


# The paths of the gateway: those of runs, and those about the service itself.

Handler = Callable[[Request], Awaitable[Response]]


class About:
    """What the service tells of itself, of its data sets, and of all clients together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._document = document(service.config)
        self._health = Health(service)

    async def health(self, request: Request) -> Response:
        found = await self._health.shared()
        return json_answer(found, 200 if found.status == OK else 503)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self._document)

    async def datasets(self, request: Request) -> Response:
        self._service.access.caller(request)
        return json_answer(shapes.Datasets(tuple(map(describe, self._known().values()))))

    async def dataset(self, request: Request) -> Response:
        self._service.access.caller(request)
        name = request.path_params["name"]
        if name not in self._known():
            raise no_dataset(name, self._known())
        return json_answer(describe(self._known()[name]))

    async def clients(self, request: Request) -> Response:
        if not self._service.access.caller(request).operator:
            raise Problem(403, "not_operator", "only the operator may list clients")
        query_of(request, ())
        found = await self._own_clients()
        missing = []
        async for host, answer in self._service.peers.ask_all("/internal/v1/clients"):
            if answer is None:
                missing.append(host)
            else:
                found += convert(answer["clients"], list[shapes.Client])
        found.sort(key=lambda client: client.id)
        return json_answer(shapes.Clients(tuple(found), tuple(missing)))

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

    async def _own_clients(self) -> list[shapes.Client]:
        return [
            shapes.Client(
                snapshot.status.spec.client,
                snapshot.status.spec.dataset,
                state_of(snapshot),
                snapshot.status.spec.expires,
                self._service.config.host,
            )
            for snapshot in await self._service.homes.all()
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
