"""STATUS: what a client is told about its run, and how long it can wait for news."""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from booksan.gateway.homes import Homes, Look
from booksan.spec import Spec
from booksan.stages.datasets import datasets

#: Seconds between two looks at a home, for one that waits: the first, and the longest.
LOOKS = (0.02, 0.2)
MAX_WAIT = 30.0


def status_of(look: Look) -> dict[str, Any]:
    found = look.status
    body: dict[str, Any] = {
        "id": found.spec.client,
        "dataset": found.spec.dataset,
        "dataset_version": found.spec.version,
        "generation": found.spec.generation,
        "params": dict(found.spec.params),
        "state": state_of(look),
        "failed": look.failed,
        "expires": found.spec.expires,
        "ticket": found.ticket,
        "permits": found.permits,
        "sources": {
            name: {
                "batches": source.batches,
                "of_batches": source.of_batches,
                "rows": source.rows,
                "rejected": source.rejected,
                "complete": source.complete,
                "missing": list(source.missing),
            }
            for name, source in _in_upload_order(found.spec, found.sources).items()
        },
        "answers": _answers(look),
    }
    return body | {"version": _version(body)}


def state_of(look: Look) -> str:
    if look.failed is not None:
        return "failed"
    if look.status.done:
        return "done"
    uploaded = all(source.complete for source in look.status.sources.values())
    return "working" if uploaded else "uploading"


def _in_upload_order(spec: Spec, sources: dict[str, Any]) -> dict[str, Any]:
    dataset = datasets().get(spec.dataset)
    order = [source.name for source in dataset.sources] if dataset else sorted(sources)
    return {name: sources[name] for name in order if name in sources}


def _answers(look: Look) -> dict[str, Any]:
    dataset = datasets().get(look.status.spec.dataset)
    return {
        query.name: {
            "rows": look.rows.get(query.name, 0),
            "complete": query.stage in look.status.complete,
        }
        for query in (dataset.queries if dataset else ())
    }


def _version(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class Watcher:
    """Looks at a client's home again and again until there is news."""

    def __init__(self, homes: Homes, client: str, shard: int, stopping: asyncio.Event) -> None:
        self._homes = homes
        self._client = client
        self._shard = shard
        self._stopping = stopping

    async def news(
        self, seen: str | None, seconds: float, still_wanted: Callable[[], Awaitable[bool]]
    ) -> tuple[Look, dict[str, Any]]:
        """As soon as the version is not the one seen, or when the seconds are over."""
        pause, longest = LOOKS
        deadline = time.monotonic() + seconds
        while True:
            look = await self.look()
            status = status_of(look)
            left = deadline - time.monotonic()
            if status["version"] != seen or left <= 0 or self._stopping.is_set():
                return look, status
            if not await still_wanted():
                return look, status
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, longest)

    async def look(self) -> Look:
        return await self._homes.look(self._client, self._shard)
