"""Places for bodies are few: no client takes all of them."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from booksan.gateway.errors import Problem
from booksan.gateway.uploads import BODIES, CLIENT_BODIES, HEAVY_BODIES, HeavyTurns, Turns


def test_a_client_with_many_slow_bodies_leaves_places_for_others() -> None:
    async def scene() -> None:
        turns = Turns(0.05)
        async with AsyncExitStack() as slow:
            for _ in range(CLIENT_BODIES):
                await slow.enter_async_context(turns.of("slow"))
            with pytest.raises(Problem, match="too many batches"):
                await slow.enter_async_context(turns.of("slow"))
            async with turns.of("other"):
                pass
        async with turns.of("slow"):
            pass

    asyncio.run(scene())


def test_all_clients_together_take_no_more_than_there_are() -> None:
    async def scene() -> None:
        turns = Turns(0.05)
        async with AsyncExitStack() as stack:
            for number in range(BODIES):
                await stack.enter_async_context(turns.of(f"client-{number}"))
            with pytest.raises(Problem, match="too many batches"):
                await stack.enter_async_context(turns.of("late"))
        async with turns.of("late"):
            pass

    asyncio.run(scene())


def test_heavy_batches_go_one_at_a_time_and_few_wait() -> None:
    async def scene() -> None:
        turns = HeavyTurns()
        first_may_end = asyncio.Event()
        at_work = most = 0

        async def batch() -> None:
            nonlocal at_work, most
            async with turns.next():
                at_work += 1
                most = max(most, at_work)
                await first_may_end.wait()
                at_work -= 1

        held = [asyncio.create_task(batch()) for _ in range(HEAVY_BODIES)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="too many batches") as refused:
            await batch()
        assert (refused.value.status, refused.value.retry) == (503, 1)
        first_may_end.set()
        await asyncio.gather(*held)
        await batch()
        assert most == 1

    asyncio.run(scene())
