"""Datagrams on their way: delayed, doubled, lost, recorded and played again."""

import random
from collections.abc import Iterable

from tests.simulation.election.schedule import Schedule


class Network:
    """Decides when copies of a datagram arrive, and keeps book of broken promises."""

    def __init__(self, schedule: Schedule, bound: float, rng: random.Random) -> None:
        self._schedule = schedule
        self._bound = bound
        self._random = rng.random
        self._uniform = rng.uniform
        self._cut: dict[tuple[int, int], int] = {}
        #: Until when a datagram of this link was lost or late.
        self.broken: dict[tuple[int, int], float] = {}
        self.calm = False
        self._rough = bool(schedule.loss or schedule.late or schedule.twice or schedule.replay)

    def cut(self, links: Iterable[tuple[int, int]]) -> None:
        for link in links:
            self._cut[link] = self._cut.get(link, 0) + 1

    def mend(self, links: Iterable[tuple[int, int]]) -> None:
        for link in links:
            left = self._cut.get(link, 0) - 1
            if left > 0:
                self._cut[link] = left
            else:
                self._cut.pop(link, None)

    def calm_down(self) -> None:
        self.calm = True
        self._cut.clear()

    def break_promise(self, link: tuple[int, int], until: float) -> None:
        self.broken[link] = max(self.broken.get(link, 0.0), until)

    def arrivals(self, link: tuple[int, int], now: float, up: bool) -> list[float]:
        """When copies of a datagram sent now arrive. `up`: the receiver lives."""
        usual = now + self._random() * self._schedule.delay
        if self.calm or not (self._cut or self._rough):
            return [usual]
        found = self._first(link, now, usual, up)
        schedule = self._schedule
        if self._random() < schedule.twice:
            found.append(now + self._random() * self._bound)
        if self._random() < schedule.replay:
            found.append(now + self._uniform(0.3, 8.0))
        return found

    def _first(self, link: tuple[int, int], now: float, usual: float, up: bool) -> list[float]:
        if link in self._cut or self._random() < self._schedule.loss:
            if up:
                self.break_promise(link, now + self._bound)
            return []
        if self._random() < self._schedule.late:
            arrival = now + self._uniform(self._bound, 2.0)
            self.break_promise(link, arrival)
            return [arrival]
        return [usual]
