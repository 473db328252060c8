"""STATUS: what a client is told about its run, and how long it can wait for news."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import msgspec
from msgspec.structs import replace
from starlette.responses import StreamingResponse

from booksan.datasets import datasets
from booksan.gateway.errors import Problem
from booksan.gateway.homes import Homes, Snapshot
from booksan.home import HomeStatus
from booksan.stages.operators.joining import Joining
from booksan_common.backoff import Backoff
from booksan_common.shapes import AnswerStatus, Join, SourceStatus, Status

#: Seconds between two looks at a home, for one that waits: the first, the longest, and how they
#: grow.
LOOKS = (0.02, 0.2, 1.5)
MAX_WAIT = 30.0


def status_of(snapshot: Snapshot) -> Status:
    found = snapshot.status
    status = Status(
        id=found.spec.client,
        dataset=found.spec.dataset,
        dataset_version=found.spec.version,
        generation=found.spec.generation,
        params=dict(found.spec.params),
        state=state_of(snapshot),
        failed=snapshot.failed,
        expires=found.spec.expires,
        ticket=found.ticket,
        permits=found.permits,
        sources=_sources(found),
        answers=_answers(snapshot),
        joins=tuple(_joins(found)),
        version="",
    )
    text = msgspec.json.encode(status, order="deterministic")
    return replace(status, version=hashlib.blake2b(text, digest_size=12).hexdigest())


def state_of(snapshot: Snapshot) -> str:
    if snapshot.failed is not None:
        return "failed"
    if snapshot.status.done:
        return "done"
    uploaded = all(source.complete for source in snapshot.status.sources.values())
    return "working" if uploaded else "uploading"


def _sources(found: HomeStatus) -> dict[str, SourceStatus]:
    """In upload order."""
    dataset = datasets().get(found.spec.dataset)
    names = [each.name for each in dataset.sources] if dataset else sorted(found.sources)
    known = {name: found.sources[name] for name in names if name in found.sources}
    return {
        name: msgspec.convert(source, SourceStatus, from_attributes=True)
        for name, source in known.items()
    }


def _answers(snapshot: Snapshot) -> dict[str, AnswerStatus]:
    dataset = datasets().get(snapshot.status.spec.dataset)
    return {
        query.name: AnswerStatus(
            snapshot.rows.get(query.name, 0), query.stage in snapshot.status.complete
        )
        for query in (dataset.queries if dataset else ())
    }


def _joins(found: HomeStatus) -> Iterator[Join]:
    """What all shards of a stage have said; of some of them it would tell too little."""
    dataset = datasets().get(found.spec.dataset)
    for (source, stage), counted in found.joined.items():
        declared = dataset.stage.get(stage) if dataset else None
        operator = declared.operator if declared else None
        if dataset is None or not isinstance(operator, Joining) or operator.earlier is None:
            continue
        if len(counted) == len(dataset.shards_of(stage, found.spec)):
            rows, matched = (sum(each) for each in zip(*counted, strict=True))
            yield Join(stage, source, operator.earlier, rows, matched)


class Watcher:
    """Looks at a client's home again and again until there is news."""

    def __init__(self, homes: Homes, client: str, shard: int, stopping: asyncio.Event) -> None:
        self._homes = homes
        self._client = client
        self._shard = shard
        self._stopping = stopping

    async def news(
        self, seen: str | None, seconds: float, still_wanted: Callable[[], Awaitable[bool]]
    ) -> tuple[Snapshot, Status]:
        """As soon as the version is not the one seen, or when the seconds are over."""
        pauses = Backoff(*LOOKS)
        deadline = time.monotonic() + seconds
        while True:
            snapshot = await self.snapshot()
            status = status_of(snapshot)
            left = deadline - time.monotonic()
            if status.version != seen or left <= 0 or self._stopping.is_set():
                return snapshot, status
            if not await still_wanted():
                return snapshot, status
            await asyncio.sleep(min(next(pauses), left))

    async def snapshot(self) -> Snapshot:
        return await self._homes.snapshot(self._client, self._shard)


# News of a run as server-sent events.

#: Seconds of silence after which a comment shows that the connection lives.
COMMENT_SECONDS = 15.0


def event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(msgspec.to_builtins(data))}\n\n".encode()


async def stream(watcher: Watcher, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Every status that is new, and at last how it ended."""
    seen: str | None = None
    while not stopping.is_set():
        try:
            snapshot, status = await watcher.news(seen, COMMENT_SECONDS, _wanted)
        except Problem as problem:
            if problem.status not in (404, 410):
                raise
            yield event("end", problem.body)
            return
        if status.version == seen:
            yield b": nothing new\n\n"
            continue
        seen = status.version
        yield event("status", status)
        if snapshot.over:
            yield event("end", status)
            return


async def _wanted() -> bool:
    """A client that leaves ends the stream itself."""
    return True


def response(watcher: Watcher, stopping: asyncio.Event) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        stream(watcher, stopping), 200, headers, "text/event-stream; charset=utf-8"
    )
