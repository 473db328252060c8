"""Health costs one thread, however many ask and however long the broker is silent."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from booksan.gateway.app import About
from tests.support.gateway_host import CONFIG


class Homes:
    """Threads that have to wait for a broker."""

    def __init__(self) -> None:
        self.busy = 0
        self.most = 0
        self.looks = 0

    async def run(self, work: Callable[[], str]) -> str:
        self.looks += 1
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0.05)
        self.busy -= 1
        return "queues_away"


def test_many_who_ask_for_health_share_one_look() -> None:
    homes = Homes()

    async def scene() -> list[int]:
        about = About(cast("Any", SimpleNamespace(config=CONFIG, homes=homes)))
        answers = await asyncio.gather(*(about.health(cast("Any", None)) for _ in range(20)))
        return [answer.status_code for answer in answers]

    assert asyncio.run(scene()) == [503] * 20
    assert (homes.most, homes.looks) == (1, 1)
