"""Pauses that grow, so that what does not work is tried ever more rarely."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Backoff:
    """`next` gives the seconds of a pause; up to the longest, the one after it is longer."""

    first: float
    longest: float
    factor: float = 2.0
    #: From 0 to 1; with `random.random`, those that failed together do not come back together.
    chance: Callable[[], float] = lambda: 1.0
    #: The next one; the first, unless it is told.
    coming: float = 0.0

    def __post_init__(self) -> None:
        self.coming = self.coming or self.first

    def __next__(self) -> float:
        pause = self.coming
        self.coming = min(pause * self.factor, self.longest)
        return pause * (0.5 + self.chance() / 2)

    def reset(self) -> None:
        self.coming = self.first
