"""Places for bodies are few: no client takes all of them."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from booksan.gateway.batches import BODIES, CLIENT_BODIES, Turns
from booksan.gateway.errors import Problem


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
