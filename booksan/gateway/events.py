"""News of a run as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from booksan.gateway.errors import Problem
from booksan.gateway.status import Watcher

#: Seconds of silence after which a comment shows that the connection lives.
COMMENT_SECONDS = 15.0


def event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


async def stream(watcher: Watcher, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Every status that is new, and at last how it ended."""
    seen: str | None = None
    while not stopping.is_set():
        try:
            look, status = await watcher.news(seen, COMMENT_SECONDS, _wanted)
        except Problem as problem:
            if problem.status not in (404, 410):
                raise
            yield event("end", problem.body)
            return
        if status["version"] == seen:
            yield b": nothing new\n\n"
            continue
        seen = status["version"]
        yield event("status", status)
        if look.over:
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
