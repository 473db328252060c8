"""What people hear of a host: that it is ready and where, and of each run its begin and its end.

Workers tell it by the pipe of `booksan.news`. A worker that was killed before it had committed
what it told tells it again; here it is said once. Runs that began before this supervisor did are
not told of again.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from booksan import news
from booksan.host.config import WorkerSpec
from booksan.host.logs import has_terminal, say, tell

#: Runs that are remembered; of older ones the time that they took is not known.
_REMEMBERED = 10_000
#: Ends of a run of which people hear; one whose answers were fetched was told of as done.
_GONE = {
    "cancelled": "was cancelled",
    "expired": "has expired",
    "idle": "was given up: its upload has stopped",
}


@dataclass
class _Run:
    #: Monotonic; None for one that began before.
    began: float | None = None
    last: str = ""


class Announcer:
    def __init__(self, workers: Sequence[WorkerSpec]) -> None:
        self._stages = {one.stage for one in workers if one.entry is None}
        self._waited_for = {one.name for one in workers}
        self._count = len(workers)
        self._url = ""
        self._runs: dict[tuple[str, int], _Run] = {}
        #: All workers have been at work at once, since the start.
        self.ready = False

    def hear(self, words: Sequence[Mapping[str, Any]]) -> None:
        for found in words:
            if found["word"] == "run":
                self._run(found)
            elif found["word"] == "ready":
                self._is_ready(str(found["worker"]), str(found["url"]))
            elif not self.ready:
                say(f"not ready yet: {found['reason']}")

    def lost(self, worker: str) -> None:
        """It has died."""
        if not self.ready:
            self._waited_for.add(worker)

    def _is_ready(self, worker: str, url: str) -> None:
        self._url = url or self._url
        self._waited_for.discard(worker)
        if self.ready or self._waited_for:
            return
        self.ready = True
        where = f"at {self._url}" if self._url else "without a gateway"
        stop = "; Ctrl-C ends it" if has_terminal() else ""
        size = f"{_number(len(self._stages), 'stage')}, {_number(self._count, 'process')}"
        say(f"ready {where}, {size}{stop}")
        if self._url:
            say(f"booksan submit DATASET FILES --out DIR --server {self._url}", more=True)

    def _run(self, found: Mapping[str, Any]) -> None:
        client, generation, what = found["client"], found["generation"], found["what"]
        run = self._runs.get((client, generation)) or self._new(client, generation)
        if what == news.GONE:
            self._runs.pop((client, generation), None)
        elif f"{what} {found['reason']}" == run.last:
            return
        run.last = f"{what} {found['reason']}"
        if what == news.BEGINS:
            run.began = time.monotonic()
        words = _words(what, found, _seconds(run))
        if words:
            tell("host", f"run {client} of {found['dataset']} {words}", client=client)

    def _new(self, client: str, generation: int) -> _Run:
        while len(self._runs) >= _REMEMBERED:
            del self._runs[next(iter(self._runs))]
        return self._runs.setdefault((client, generation), _Run())


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}{'es' if what[-1] == 's' else 's'}"


def _seconds(run: _Run) -> str:
    return "" if run.began is None else f"{time.monotonic() - run.began:.1f} s"


def _words(what: str, found: Mapping[str, Any], seconds: str) -> str:
    after = f" after {seconds}" if seconds else ""
    if what == news.BEGINS:
        return "begins anew" if found["generation"] else "begins"
    if what == news.DONE:
        return f"is done: {found['rows']:,} rows" + (f", {seconds}" if seconds else "")
    if what == news.FAILED:
        return f"failed{after}: {found['reason']}"
    if what == news.HEALED:
        return "is healed and goes on"
    how = _GONE.get(found["reason"])
    return f"{how}{after}" if how else ""
