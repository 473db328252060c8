"""A client's data on its way in: parse a batch, split it by stage and shard, publish it.

A gateway keeps no state. What it must know of a client stands in the signed ticket that comes
with every call, and a repeated call is harmless because it makes the same messages again.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec
import polars as pl
from starlette.requests import Request

from booksan.datasets import dataset_named, datasets
from booksan.errors import BooksanError, MessageError, QueuesFull, UsageError
from booksan.gateway.access import Caller
from booksan.gateway.bodies import decoder_of, read_body
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Gone, Problem
from booksan.gateway.homes import Homes, Peers, home_of
from booksan.gateway.ingest import Parsed, parse
from booksan.gateway.progress import Progress, resend_of
from booksan.home import HomeStatus
from booksan.logs import Steps, of_client
from booksan.messages import (
    Control,
    Kind,
    Message,
    control_message,
    digest_of,
    encode,
    end_message,
    to_body,
)
from booksan.partition import numbered_messages
from booksan.shards import queue_name
from booksan.spec import HOME, Spec
from booksan.stages.dataset_errors import DataSetError, in_words
from booksan.tickets import check_permit, open_ticket
from booksan.transport import check_address, open_transport, queues_address
from booksan.transport.base import Depth, Outgoing, Transport
from booksan_common.backoff import Backoff
from booksan_common.shapes import Error, Lack, Receipt, Status

log = logging.getLogger("booksan.gateway")

#: Messages and bytes that may wait in a queue before the gateway holds back: enough to keep
#: every worker busy, little enough to bound the disk, and memory with it.
QUEUE_LIMIT = Depth(messages=256, bytes=64 * 1024 * 1024)
#: Seconds between two questions whether waiting still makes sense.
PATIENCE = 0.5


class Gateway:
    def __init__(
        self,
        transport: Transport,
        keys: Sequence[bytes],
        *,
        limit: Depth = QUEUE_LIMIT,
        while_waiting: Callable[[], None] = lambda: None,
        room_seconds: float | None = None,
    ) -> None:
        self.transport = transport
        self.keys = keys
        self.limit = limit
        #: How long full queues may hold a call back before it raises QueuesFull; None for ever.
        self.room_seconds = room_seconds
        #: Called again and again while queues are full; raises to give up.
        self.while_waiting = while_waiting

    def create(self, spec: Spec) -> None:
        """Asks the client's home to begin; its ticket is there when the home has done so."""
        self._tell_home(spec, Control.CREATED)

    def release(self, ticket: str, how: str) -> None:
        """The client has its results, or wants them no more: all that is its is deleted."""
        self._tell_home(open_ticket(self.keys, ticket), Control.RELEASE, how=how)

    def put(
        self, spec: Spec, source: str, number: int, data: bytes, steps: Steps | None = None
    ) -> Receipt:
        """Takes one batch of whole records that was let in; returns when all of it is confirmed."""
        steps = steps or Steps(log)
        with steps.time("room"):
            self._wait_for_room(reading_queues(spec, source))
        dataset = dataset_named(spec.dataset)
        declared = dataset.source[source]
        header = spec.columns[source]
        with steps.time("parse"):
            parsed = parse(
                data,
                header,
                declared.needed,
                declared.kinds,
                declared.delimiter,
                lacking=declared.lacking,
            )
        sender = f"gateway/{source}"
        digest = digest_of(spec.digest, sender, number, data)
        try:
            with steps.time("route"):
                messages = numbered_messages(
                    dataset, spec, sender, number, digest, declared.route(parsed.frame, spec.params)
                )
        except Exception as error:
            # Whatever the code of a data set raises: it would do so every time.
            raise self._failed(spec, sender, number, error) from error
        messages.append(_count_message(spec, sender, number, digest, parsed))
        with steps.time("publish"):
            self.transport.publish(messages)
        told = {"source": source, "batch": number, "bytes": len(data), "rows": parsed.records}
        steps.tell("batch", spec.client, **told)
        return Receipt(parsed.records, len(parsed.rejected))

    def end(self, spec: Spec, source: str, batches: int) -> None:
        """Tells every shard that reads the source how many batches it has."""
        end = encode(end_message(spec, f"gateway/{source}", batches))
        queues = reading_queues(spec, source)
        self._wait_for_room(queues)
        self.transport.publish([Outgoing(queue, end) for queue in queues])

    def has_room(self, spec: Spec, source: str) -> bool:
        """Would a batch of this source be taken at once?"""
        return self.transport.wait_for_room(reading_queues(spec, source), self.limit, 0)

    def _wait_for_room(self, queues: Collection[str]) -> None:
        """Holds back while queues are long, before any part of a batch is made or published."""
        begun = time.monotonic()
        while not self.transport.wait_for_room(queues, self.limit, PATIENCE):
            self.while_waiting()
            if self.room_seconds is not None and time.monotonic() - begun >= self.room_seconds:
                raise QueuesFull(
                    f"the queues have been full for {self.room_seconds:g} seconds; "
                    "send the batch again later"
                )

    def _failed(self, spec: Spec, sender: str, number: int, error: Exception) -> Exception:
        """The home notes that the run has failed; trouble with the machine is no such failure."""
        foreign = isinstance(error, DataSetError) or not isinstance(error, BooksanError)
        if isinstance(error, OSError | MemoryError) or not foreign:
            return error
        reason = f"{sender}: batch {number} cannot be routed: {in_words(error)}"
        log.error(reason, exc_info=error, extra=of_client(spec.client))
        message = control_message(spec, sender, Control.FAILED, letter="", round=1, reason=reason)
        self.transport.publish([Outgoing(queue_name(HOME, spec.home), encode(message))])
        return DataSetError(reason)

    def _tell_home(self, spec: Spec, control: Control, **data: str) -> None:
        message = control_message(spec, "gateway/none", control, **data)
        self.transport.publish([Outgoing(queue_name(HOME, spec.home), encode(message))])


def reading_queues(spec: Spec, source: str) -> list[str]:
    """The queues of all shards that get a message for each batch of the source."""
    dataset = dataset_named(spec.dataset)
    return [
        queue_name(stage.name, shard)
        for stage in dataset.receivers[source]
        for shard in dataset.shards_of(stage.name, spec)
    ]


def _count_message(spec: Spec, sender: str, number: int, digest: str, parsed: Parsed) -> Outgoing:
    """The home counts rows, and keeps what was rejected and why."""
    schema = {"row": pl.UInt32, "reason": pl.String}
    body = to_body(pl.DataFrame(parsed.rejected, schema, orient="row"))
    message = Message(spec, sender, Kind.BATCH, number, digest, {"rows": parsed.records}, body)
    return Outgoing(queue_name(HOME, spec.home), encode(message))


# The gateway's way to the queues, which may be away when it starts and come back later.


class Queues:
    """Opens the transport when it is first needed, and again until it can be opened."""

    def __init__(self, data_dir: Path, config: GatewayConfig, keys: Sequence[bytes]) -> None:
        """UsageError for an address that cannot be one."""
        self._address = queues_address(data_dir)
        check_address(self._address)
        self._config = config
        self._keys = keys
        self._lock = threading.Lock()
        self._gateway: Gateway | None = None

    def gateway(self) -> Gateway:
        """May block, so it is called in threads only; raises what opening raises."""
        with self._lock:
            if self._gateway is None:
                self._gateway = Gateway(
                    open_transport(self._address),
                    self._keys,
                    # A batch is let in when there is room; between that and its publishing,
                    # other batches may have taken it, but never for long.
                    room_seconds=self._config.room_seconds,
                )
            return self._gateway

    def close(self) -> None:
        with self._lock:
            gateway, self._gateway = self._gateway, None
        if gateway is not None:
            gateway.transport.close()


# Uploads over HTTP: who may send what, how many at once, and how long each may take.

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
#: Heavy bodies that are held at once: one in work, and one that waits for it.
HEAVY_BODIES = 2
#: Seconds between two looks at full queues: the first, the longest, and how they grow.
LOOKS = (0.01, 0.25, 1.5)
#: Seconds for which full queues are taken to be full still.
FULL_SECONDS = 0.1


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
                raise _busy() from None
            yield


class HeavyTurns:
    """Heavy batches go one at a time, so that memory is bounded by one of them.

    Those that wait have been received already. So only few may, and the others are sent again.
    """

    def __init__(self) -> None:
        self._work = asyncio.Lock()
        self._held = 0

    @asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        if self._held >= HEAVY_BODIES:
            raise _busy()
        self._held += 1
        try:
            async with self._work:
                yield
        finally:
            self._held -= 1


class Batches:
    def __init__(
        self,
        config: GatewayConfig,
        keys: Sequence[bytes],
        homes: Homes,
        peers: Peers,
        queues: Queues,
        stopping: asyncio.Event,
    ) -> None:
        self._config = config
        self._keys = keys
        self._homes = homes
        self._neighbours = peers
        self._queues = queues
        self._stopping = stopping
        self._parsers = ThreadPoolExecutor(PARSERS, "parse")
        #: Short questions to the queues; batches in work must not keep them waiting.
        self._askers = ThreadPoolExecutor(2, "room")
        self._turns = Turns(config.room_seconds)
        self._heavy = HeavyTurns()
        #: When queues were last found to be full: many who wait need not all look.
        self._full: dict[tuple[str, ...], float] = {}

    async def put(self, request: Request, spec: Spec, source: str, number: int) -> Receipt:
        """Nothing of the body is read before there is room for it in the queues."""
        decoder_of(request)
        steps = Steps(log)
        with steps.time("room"):
            await self._wait_for_room(spec, source)
        async with self._turns.of(spec.client):
            config = self._config
            body = await read_body(request, config.max_batch_bytes, config.body_seconds)
            async with self._heavy.next() if body.count(b",") > HEAVY else nullcontext():
                return await self._in_thread(
                    lambda: self._queues.gateway().put(spec, source, number, body, steps)
                )

    async def end(self, spec: Spec, source: str, batches: int) -> None:
        await self._wait_for_room(spec, source)
        await self._in_thread(lambda: self._queues.gateway().end(spec, source, batches))

    async def admit(self, request: Request, caller: Caller, client: str, source: str) -> Spec:
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
        return spec

    async def resend(self, found: Progress, home: HomeStatus) -> dict[str, Lack]:
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
    ) -> tuple[str, Mapping[str, str]]:
        """Ticket and permits, as the home gives them to the client's owner."""
        url = self._homes.url(shard)
        if not url or caller.gateway:
            snapshot = await self._homes.snapshot(client, shard)
            caller.check_owner(snapshot.status.spec)
            return snapshot.status.ticket, snapshot.status.permits
        headers = {TICKET_HEADER: ticket} if ticket else {}
        answer = await self._neighbours.ask(caller, client, url, headers)
        if answer.status_code != 200:
            error = msgspec.json.decode(answer.content, type=Error).error
            raise Problem(answer.status_code, error.code, error.message, how=error.how)
        status = msgspec.json.decode(answer.content, type=Status)
        return status.ticket, status.permits

    async def _wait_for_room(self, spec: Spec, source: str) -> None:
        pauses = Backoff(*LOOKS)
        deadline = time.monotonic() + self._config.room_seconds
        while not await self._has_room(spec, source):
            if time.monotonic() >= deadline or self._stopping.is_set():
                raise Problem(503, "queues_full", "the queues are full; send it again later")
            await asyncio.sleep(next(pauses))

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


def _busy() -> Problem:
    return Problem(503, "busy", "too many batches at once; send it again later")


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
