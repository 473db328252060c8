"""The beginning and the end of a client's run."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from booksan.gateway.access import Caller
from booksan.gateway.config import GatewayConfig
from booksan.gateway.creation import Wanted
from booksan.gateway.errors import Gone, Problem
from booksan.gateway.homes import Homes, Look
from booksan.gateway.queues import Queues
from booksan.gateway.uploads import Gateway
from booksan.spec import Spec

T = TypeVar("T")

#: Seconds that a home gets to take a client in, or to bury it.
HOME_SECONDS = 15.0
#: Seconds between two looks at it: the first, and the longest.
LOOKS = (0.01, 0.2)
#: Threads that publish control messages, so that uploads cannot keep them waiting.
CONTROL_THREADS = 4


class Clients:
    def __init__(self, config: GatewayConfig, homes: Homes, queues: Queues) -> None:
        self._config = config
        self._homes = homes
        self._queues = queues
        self._threads = ThreadPoolExecutor(CONTROL_THREADS, "control")
        self._creating = asyncio.Lock()
        #: Asked for, and not shown by their homes yet.
        self._pending: set[str] = set()

    async def create(self, caller: Caller, wanted: Wanted, shard: int) -> tuple[Look, bool]:
        """The client as its home shows it, and whether it began just now."""
        spec = self._spec(caller, wanted)
        async with self._creating:
            try:
                look = await self._find(spec, shard)
            except Gone as gone:
                caller.check_gone(spec.client, gone)
                raise
            begun = look is None and spec.client not in self._pending
            if begun:
                await self._check_number()
                self._pending.add(spec.client)
        try:
            if begun:
                await self._tell(lambda gateway: gateway.create(spec))
            if look is None:
                look = await self._wait_until_there(spec, shard)
        finally:
            if begun:
                self._pending.discard(spec.client)
        caller.check_owner(look.status.spec)
        _check_same(look.status.spec, spec)
        return look, begun

    async def release(self, look: Look, shard: int, how: str) -> str:
        """Ends the run; how it ended, which may have been decided before."""
        ticket = look.status.ticket
        await self._tell(lambda gateway: gateway.release(ticket, how))
        return await self._wait_until_gone(look.status.spec.client, shard)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _spec(self, caller: Caller, wanted: Wanted) -> Spec:
        return Spec(
            client=wanted.client,
            dataset=wanted.dataset.name,
            version=wanted.dataset.version,
            params=wanted.params,
            columns=wanted.columns,
            shards={stage.name: self._config.shards[stage.name] for stage in wanted.dataset.stages},
            expires=int(self._homes.clock.now()) + self._config.expiry,
            owner=caller.owner(wanted.client),
            idle=self._config.idle,
            generation=wanted.generation,
        )

    async def _tell(self, work: Callable[[Gateway], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(self._queues.gateway()))

    async def _find(self, spec: Spec, shard: int) -> Look | None:
        """The client, if it is there in this generation or a later one."""
        try:
            look = await self._homes.look(spec.client, shard)
        except Problem as problem:
            if problem.code == "unknown_client":
                return None
            raise
        there = look.status.spec
        if there.generation >= spec.generation:
            return look
        # Only its owner may begin it anew.
        if there.owner != spec.owner:
            raise Problem(403, "wrong_secret", f"the secret is not the one of {spec.client}")
        return None

    async def _check_number(self) -> None:
        known = await self._homes.unfinished()
        if len(known | self._pending) >= self._config.max_clients:
            raise Problem(
                429,
                "too_many_clients",
                f"{self._config.max_clients} clients are at work already; try again later",
                retry=5,
            )

    async def _wait_until_there(self, spec: Spec, shard: int) -> Look:
        pause, longest = LOOKS
        deadline = time.monotonic() + HOME_SECONDS
        while (look := await self._find(spec, shard)) is None:
            if time.monotonic() > deadline:
                raise _slow(spec.client)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, longest)
        return look

    async def _wait_until_gone(self, client: str, shard: int) -> str:
        pause, longest = LOOKS
        deadline = time.monotonic() + HOME_SECONDS
        while (how := await self._homes.how_gone(client, shard)) is None:
            if time.monotonic() > deadline:
                raise _slow(client)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, longest)
        return how


def _slow(client: str) -> Problem:
    return Problem(503, "home_slow", f"the home of {client} has not answered yet; ask again")


def _check_same(there: Spec, asked: Spec) -> None:
    """What the server chose (expiry, idle time, shard numbers) may differ."""
    for what, one, other in (
        ("data set", (there.dataset, there.version), (asked.dataset, asked.version)),
        ("parameters", dict(there.params), dict(asked.params)),
        ("columns", dict(there.columns), dict(asked.columns)),
    ):
        if one != other:
            raise Problem(
                409,
                "other_spec",
                f"{there.client} was begun with other {what}; take another id, or the same {what}",
            )
