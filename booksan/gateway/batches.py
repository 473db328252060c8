"""Uploads over HTTP: who may send what, how many at once, and how long each may take."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from starlette.requests import Request

from booksan.errors import MessageError, UsageError
from booksan.gateway.access import Caller
from booksan.gateway.bodies import decoder_of, read_body
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Gone, Problem
from booksan.gateway.finding import home_of
from booksan.gateway.homes import Homes
from booksan.gateway.neighbours import Neighbours
from booksan.gateway.progress import Progress, resend_of
from booksan.gateway.queues import Queues
from booksan.gateway.uploads import Receipt, reading_queues
from booksan.home import HomeStatus
from booksan.spec import Spec
from booksan.stages.datasets import datasets
from booksan.tickets import check_permit, open_ticket

T = TypeVar("T")

TICKET_HEADER = "Booksan-Ticket"
PERMIT_HEADER = "Booksan-Permit"
#: Bodies that are received or held at once; the others wait without being read.
BODIES = 32
#: Of one client: the others shall find a place though it sends many and slowly.
CLIENT_BODIES = 8
#: Batches that are parsed and published at once. polars leaves Python's lock only in parts.
PARSERS = 4
#: Commas of a batch that is heavy: each may stand for a value, which takes some hundred bytes for a
#: while though it has but one. Ordinary batches have a tenth of that.
HEAVY = 1_000_000
#: Seconds between two looks at full queues: the first, and the longest.
LOOKS = (0.01, 0.25)
#: Seconds for which full queues are taken to be full still.
FULL_SECONDS = 0.1


class Pass(NamedTuple):
    """What lets a batch in."""

    spec: Spec
    ticket: str
    permit: str


class Turns:
    """Who may send a body now."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._all = asyncio.Semaphore(BODIES)
        #: Of each client, as long as one of its requests is there.
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, client: str) -> AsyncIterator[None]:
        own = self._own.get(client) or asyncio.Semaphore(CLIENT_BODIES)
        self._own[client] = own
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._seconds):
                    await stack.enter_async_context(own)
                    await stack.enter_async_context(self._all)
            except TimeoutError:
                text = "too many batches at once; send it again later"
                raise Problem(503, "busy", text) from None
            yield


class Batches:
    def __init__(
        self,
        config: GatewayConfig,
        keys: Sequence[bytes],
        homes: Homes,
        neighbours: Neighbours,
        queues: Queues,
        stopping: asyncio.Event,
    ) -> None:
        self._config = config
        self._keys = keys
        self._homes = homes
        self._neighbours = neighbours
        self._queues = queues
        self._stopping = stopping
        self._parsers = ThreadPoolExecutor(PARSERS, "parse")
        #: Short questions to the queues; batches in work must not keep them waiting.
        self._askers = ThreadPoolExecutor(2, "room")
        self._turns = Turns(config.room_seconds)
        #: Heavy batches go one at a time, so that memory is bounded by one of them.
        self._heavy = asyncio.Lock()
        #: When queues were last found to be full: many who wait need not all look.
        self._full: dict[tuple[str, ...], float] = {}

    async def put(self, request: Request, admitted: Pass, source: str, number: int) -> Receipt:
        """Nothing of the body is read before there is room for it in the queues."""
        decoder_of(request)
        await self._wait_for_room(admitted.spec, source)
        async with self._turns.of(admitted.spec.client):
            config = self._config
            body = await read_body(request, config.max_batch_bytes, config.body_seconds)
            async with self._heavy if body.count(b",") > HEAVY else nullcontext():
                return await self._in_thread(
                    lambda: self._queues.gateway().put(
                        admitted.ticket, source, number, body, admitted.permit
                    )
                )

    async def end(self, admitted: Pass, source: str, batches: int) -> None:
        await self._wait_for_room(admitted.spec, source)
        await self._in_thread(
            lambda: self._queues.gateway().end(admitted.ticket, source, batches, admitted.permit)
        )

    async def admit(self, request: Request, caller: Caller, client: str, source: str) -> Pass:
        """Asks nobody if ticket and permit come with the request, otherwise the client's home."""
        ticket = request.headers.get(TICKET_HEADER)
        permit = request.headers.get(PERMIT_HEADER)
        if ticket is None:
            shard = await home_of(self._homes, self._neighbours, caller, client)
            ticket, permits = await self._ask_home(caller, client, shard, None)
            permit = permits.get(source) if permit is None else permit
        spec = read_ticket(self._keys, ticket, client)
        caller.check_owner(spec)
        self._check(spec, source)
        if not self._homes.url(spec.home):
            how = await self._homes.how_gone(client, spec.home)
            if how is not None:
                raise Gone(client, how)
        # Only the home decides that a run has expired.
        if permit is None or spec.expires <= self._homes.clock.now():
            _, permits = await self._ask_home(caller, client, spec.home, ticket)
            permit = permits.get(source)
        try:
            check_permit(self._keys, spec, source, permit)
        except UsageError as error:
            raise Problem(409, "not_yet", str(error)) from None
        assert permit is not None
        return Pass(spec, ticket, permit)

    async def resend(self, found: Progress, home: HomeStatus) -> dict[str, Any]:
        """What the client should send again, because a shard lacks it and nobody else has it."""

        def is_waiting(queue: str) -> bool:
            return self._queues.gateway().transport.depth(queue).messages > 0

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._askers, lambda: resend_of(found, home, is_waiting=is_waiting)
        )

    def close(self) -> None:
        self._parsers.shutdown(wait=False, cancel_futures=True)
        self._askers.shutdown(wait=False, cancel_futures=True)

    def _check(self, spec: Spec, source: str) -> None:
        dataset = datasets().get(spec.dataset)
        if dataset is None or dataset.version != spec.version:
            raise Problem(409, "other_version", f"this server has no version {spec.version} of it")
        if source not in dataset.source:
            known = ", ".join(dataset.source)
            raise Problem(404, "unknown_source", f"no such source; the sources are: {known}")

    async def _ask_home(
        self, caller: Caller, client: str, shard: int, ticket: str | None
    ) -> tuple[str, dict[str, str]]:
        """Ticket and permits, as the home gives them to the client's owner."""
        url = self._homes.url(shard)
        if not url or caller.gateway:
            look = await self._homes.look(client, shard)
            caller.check_owner(look.status.spec)
            return look.status.ticket, look.status.permits
        headers = {TICKET_HEADER: ticket} if ticket else {}
        answer = await self._neighbours.ask(caller, client, url, headers)
        found = answer.json()
        if answer.status_code != 200:
            error = found["error"]
            how = {"how": error["how"]} if "how" in error else {}
            raise Problem(answer.status_code, error["code"], error["message"], **how)
        return found["ticket"], found["permits"]

    async def _wait_for_room(self, spec: Spec, source: str) -> None:
        pause, longest = LOOKS
        deadline = time.monotonic() + self._config.room_seconds
        while not await self._has_room(spec, source):
            if time.monotonic() >= deadline or self._stopping.is_set():
                raise Problem(503, "queues_full", "the queues are full; send it again later")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, longest)

    async def _has_room(self, spec: Spec, source: str) -> bool:
        queues = tuple(reading_queues(spec, source))
        if time.monotonic() - self._full.get(queues, -math.inf) < FULL_SECONDS:
            return False
        loop = asyncio.get_running_loop()
        room = await loop.run_in_executor(
            self._askers, lambda: self._queues.gateway().has_room(spec, source)
        )
        if room:
            self._full.pop(queues, None)
        else:
            self._full[queues] = time.monotonic()
        return room

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._parsers, work)


def read_ticket(keys: Sequence[bytes], ticket: str, client: str) -> Spec:
    """The spec in a ticket, if it is this client's."""
    try:
        spec = open_ticket(keys, ticket)
    except (UsageError, MessageError):
        raise Problem(
            403, "wrong_ticket", "the ticket is not of this cluster; create the client again"
        ) from None
    if spec.client != client:
        raise Problem(403, "wrong_ticket", f"the ticket is not the one of {client}")
    return spec
