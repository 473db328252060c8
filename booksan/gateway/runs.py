"""The paths of one client's run."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from booksan.answers import Format
from booksan.gateway import events, results
from booksan.gateway.creation import read_object, read_wanted
from booksan.gateway.errors import Problem
from booksan.gateway.finding import home_of
from booksan.gateway.homes import Look
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
from booksan.gateway.progress import stages_of, stalled_of, whole_progress
from booksan.gateway.results import PAGE
from booksan.gateway.service import Elsewhere, Place, Service, json_answer
from booksan.gateway.status import status_of
from booksan.home import HomeView

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
        shard = await home_of(service.homes, service.neighbours, caller, wanted.client)
        url = service.homes.url(shard)
        if url and not caller.gateway:
            raise Elsewhere(
                await service.neighbours.forward(request, caller, wanted.client, url, body)
            )
        look, begun = await service.clients.create(caller, wanted, shard)
        return json_answer(status_of(look), 201 if begun else 200)

    async def status(self, request: Request) -> Response:
        query = query_of(request, ("stages", "wait", "seen"))
        stages, wait = flag_of(query, "stages"), wait_of(query)
        place = await self._service.place(request, operator_may=True)
        look = await self._service.look(place, operator_may=True)
        status = status_of(look)
        if wait and status["version"] == query.get("seen"):
            watcher = self._service.watcher(place)
            look, status = await watcher.news(query["seen"], wait, _connected(request))
        if stages:
            status |= await self._stages(place, look)
        return json_answer(status)

    async def events(self, request: Request) -> Response:
        query_of(request, ())
        place = await self._service.place(request, operator_may=True)
        await self._service.look(place, operator_may=True)
        return events.response(self._service.watcher(place), self._service.stopping)

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
        look = await self._still_there(place)
        if isinstance(look, Response):
            return look
        if not look.over:
            text = f"the run of {place.client} is not done; wait for it, or cancel it"
            raise Problem(409, "not_complete", text)
        return json_answer({"how": await self._service.clients.release(look, place.shard, "done")})

    async def cancel(self, request: Request) -> Response:
        query_of(request, ())
        place = await self._service.place(request, operator_may=True)
        look = await self._still_there(place, operator_may=True)
        if isinstance(look, Response):
            return look
        how = await self._service.clients.release(look, place.shard, "cancelled")
        return json_answer({"how": how})

    async def put(self, request: Request) -> Response:
        caller = self._service.access.caller(request)
        caller.check_secret()
        client, source = client_of(request), name_of(request, "source")
        number = number_of("the number of the batch", request.path_params["n"])
        batches = self._service.batches
        admitted = await batches.admit(request, caller, client, source)
        receipt = await batches.put(request, admitted, source, number)
        return json_answer({"rows": receipt.rows, "rejected": receipt.rejected})

    async def end(self, request: Request) -> Response:
        caller = self._service.access.caller(request)
        caller.check_secret()
        client, source = client_of(request), name_of(request, "source")
        batches = self._service.batches
        admitted = await batches.admit(request, caller, client, source)
        body = read_object(await self._service.body(request), {"batches": int}, ("batches",))
        if not 0 <= body["batches"] <= MAX_NUMBER:
            raise Problem(422, "unusable", f"batches must be from 0 to {MAX_NUMBER}")
        await batches.end(admitted, source, body["batches"])
        return json_answer({})

    async def _read(self, request: Request, work: Callable[[HomeView], T]) -> T:
        place = await self._service.place(request, operator_may=True)
        await self._service.look(place, operator_may=True)
        return await self._service.homes.read(place.client, place.shard, work)

    async def _still_there(self, place: Place, *, operator_may: bool = False) -> Look | Response:
        """What the home says; of a run that has ended already, the answer that says how."""
        try:
            return await self._service.look(place, operator_may=operator_may)
        except Problem as problem:
            if problem.code != "gone":
                raise
            return json_answer({"how": problem.more["how"]})

    async def _stages(self, place: Place, look: Look) -> dict[str, Any]:
        service = self._service
        found = await whole_progress(service.homes, service.neighbours, place.client)
        more: dict[str, Any] = {
            "stages": stages_of(look.status.spec, found.streams),
            "stalled": stalled_of(found, over=look.over, now=service.homes.clock.now()),
            "resend": {} if look.over else await service.batches.resend(found, look.status),
        }
        if found.missing_hosts:
            more["missing_hosts"] = list(found.missing_hosts)
        if look.failed is None and found.failures:
            more |= {"state": "failed", "failed": found.failures[0]}
        return more


def _connected(request: Request) -> Callable[[], Awaitable[bool]]:
    async def connected() -> bool:
        return not await request.is_disconnected()

    return connected
