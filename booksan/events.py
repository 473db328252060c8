"""One line of JSON for each event.

A line tells time, host, worker, client and event. The same event is not told twice within a
minute, and a quiet system says nothing.
"""

import json
import os
import select
import time
from collections.abc import Mapping
from contextlib import suppress

#: The host's name, for all processes of its tree.
HOST_VARIABLE = "BOOKSAN_HOST"


def write(
    event: str, *, worker: str | None = None, client: str | None = None, trace: str | None = None
) -> None:
    """One event on stderr; a full disk or a reader that is gone must not end the host.

    A reader that does not read must not hold it up either: what it has no room for is left out.
    """
    with suppress(OSError):
        if not select.select([], [2], [], 0)[1]:
            return
        os.write(2, line(event, worker=worker, client=client, trace=trace).encode())


def line(
    event: str,
    *,
    worker: str | None = None,
    client: str | None = None,
    trace: str | None = None,
    more: Mapping[str, object] | None = None,
) -> str:
    """`more`: what a debug line tells besides."""
    host = os.environ.get(HOST_VARIABLE)
    found: dict[str, object] = {
        "time": round(time.time(), 3),
        "host": host,
        "worker": worker,
        "client": client,
    }
    if trace:
        found["trace"] = trace
    if more is not None:
        found |= {"level": "debug", **more}
    return json.dumps({**found, "event": event}, ensure_ascii=False) + "\n"


def is_debug(text: str) -> bool:
    return '"level": "debug"' in text


def words_of(text: str) -> str:
    """The event in a line of a log; other lines are as they are."""
    try:
        found = json.loads(text)
        event = found["event"]
    except (ValueError, KeyError, TypeError):
        return text
    last = str(found.get("trace") or "").strip().rpartition("\n")[2]
    return f"{event}: {last}" if last else str(event)
