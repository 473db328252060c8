"""The homes of clients on this host.

All reading happens in threads, with databases that are closed again at once: their worker deletes
them when the client is gone.
"""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from booksan.clock import Clock
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Gone, Problem, unknown_client
from booksan.hashing import shard_of
from booksan.home import HomeStatus, HomeView
from booksan.inspection import failures
from booksan.spec import HOME
from booksan.stages.datasets import datasets

T = TypeVar("T")

#: Threads that read databases.
READERS = 8
#: Seconds between two looks at the other shards of this host: there are many, and what they note
#: reaches the home as a message in nearly all cases.
FAILURE_SECONDS = 5.0
#: Clients whose last look is remembered.
MAX_REMEMBERED = 1000


@dataclass(frozen=True)
class Look:
    """What a home says of a client at one moment."""

    status: HomeStatus
    #: Rows of each answer that have come.
    rows: dict[str, int] = field(default_factory=dict)
    #: Why the run has failed, as its home or another shard of this host knows it.
    failed: str | None = None

    @property
    def over(self) -> bool:
        return self.status.done or self.failed is not None


class Failures:
    """Failures that never reached the home, because a shard could not even read whose they are."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        #: When each client was last looked for, and what was found: it must not vanish again.
        self._found: dict[str, tuple[float, str | None]] = {}

    def reason(self, client: str) -> str | None:
        moment, reason = self._found.get(client, (-math.inf, None))
        if reason is None and time.monotonic() - moment >= FAILURE_SECONDS:
            reason = next(iter(failures(self._root, client)), None)
            with self._lock:
                self._found[client] = (time.monotonic(), reason)
                while len(self._found) > MAX_REMEMBERED:
                    del self._found[next(iter(self._found))]
        return reason

    def forget(self, client: str) -> None:
        with self._lock:
            self._found.pop(client, None)


class Homes:
    """The homes on this host."""

    def __init__(self, data_dir: Path, config: GatewayConfig, keys: Sequence[bytes]) -> None:
        self._root = data_dir
        self._threads = ThreadPoolExecutor(READERS, "home")
        self._key = keys[0]
        self._homes = config.homes
        self._count = config.shards[HOME]
        self._failures = Failures(data_dir)
        #: The time by which runs on this host expire.
        self.clock = Clock(data_dir)
        #: Clients whose answers are complete: they stay so until they are gone.
        self._done: set[str] = set()

    @property
    def root(self) -> Path:
        return self._root

    def shard(self, client: str) -> int:
        """The home of a client that is not pinned to other shard numbers by a ticket."""
        return shard_of(client, self._count)

    @property
    def are_one(self) -> bool:
        return len(self._homes) == 1

    def known_shard(self, client: str) -> int | None:
        """The home on this host that has the client, whatever the number of homes is now."""
        names = (self._root / "clients" / client).glob(f"{HOME}-*.db")
        found = [path.stem.removeprefix(f"{HOME}-") for path in names]
        shards = sorted(int(one) for one in found if one.isdecimal() and int(one) in self._homes)
        present = self.shard(client)
        return present if present in shards else next(iter(shards), None)

    def url(self, shard: int) -> str:
        """Of the gateway that can read this home; empty for this one."""
        if shard not in self._homes:
            raise Problem(403, "wrong_ticket", f"this cluster has no {HOME}.{shard}")
        return self._homes[shard]

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def look(self, client: str, shard: int) -> Look:
        """Raises Problem if the client is gone or unknown."""
        return await self.run(self._look, client, shard)

    async def read(self, client: str, shard: int, work: Callable[[HomeView], T]) -> T:
        """Whatever `work` reads of a client that is there."""
        return await self.run(self._read, client, shard, work)

    async def how_gone(self, client: str, shard: int) -> str | None:
        return await self.run(self._how_gone, client, shard)

    async def all(self) -> list[Look]:
        """All clients whose home is on this host."""
        return await self.run(self._all)

    async def unfinished(self) -> set[str]:
        """Those of them that are at work."""
        return await self.run(self._unfinished)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _look(self, client: str, shard: int) -> Look:
        return self._read(client, shard, self._look_at)

    def _read(self, client: str, shard: int, work: Callable[[HomeView], T]) -> T:
        how = self._how_gone(client, shard)
        if how is None:
            try:
                with open_home(self._root, client, shard) as view:
                    return work(view)
            except (sqlite3.OperationalError, Problem):
                # Deleted under the reader's feet? The tombstone came before.
                how = self._how_gone(client, shard)
                if how is None:
                    raise
        self._failures.forget(client)
        with open_home(self._root, client, shard) as view:
            raise Gone(client, how, view.owner_of_gone())

    def _look_at(self, view: HomeView) -> Look:
        status = view.status()
        if status is None:
            raise unknown_client(view.client)
        dataset = datasets().get(status.spec.dataset)
        rows = {each.name: view.answer_count(each) for each in dataset.queries} if dataset else {}
        failed = status.failed
        if failed is None and not status.done:
            failed = self._failures.reason(view.client)
        return Look(status.signed_anew(self._key), rows, failed)

    def _how_gone(self, client: str, shard: int) -> str | None:
        with open_home(self._root, client, shard) as view:
            return view.how_gone()

    def _all(self) -> list[Look]:
        return [look for client, shard in self._found() if (look := self._listed(client, shard))]

    def _unfinished(self) -> set[str]:
        """Without opening the databases of runs that wait to be fetched: they may be thousands."""
        found = dict(self._found())
        self._done &= found.keys()
        unfinished = set()
        for client in found.keys() - self._done:
            look = self._listed(client, found[client])
            if look is not None and look.status.done and look.failed is None:
                self._done.add(client)
            elif look is not None and not look.over:
                unfinished.add(client)
        return unfinished

    def _found(self) -> list[tuple[str, int]]:
        paths = sorted((self._root / "clients").glob(f"*/{HOME}-*.db"))
        shards = ((path.parent.name, path.stem.removeprefix(f"{HOME}-")) for path in paths)
        return [(client, int(shard)) for client, shard in shards if shard.isdecimal()]

    def _listed(self, client: str, shard: int) -> Look | None:
        try:
            return self._look(client, shard)
        except (Problem, sqlite3.Error):
            # Gone since, just being made, or broken: nothing that can be listed.
            return None


@contextmanager
def open_home(root: Path, client: str, shard: int) -> Iterator[HomeView]:
    view = HomeView(root, client, shard)
    try:
        yield view
    finally:
        view.close()
