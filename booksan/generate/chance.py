"""Random choices that are the same on every machine and Python version.

Only `random()` is used: its sequence is fixed by the Mersenne Twister, while those of `choice`,
`sample` and `shuffle` are not promised, and `gauss` and the like depend on the C library.
"""

import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """A seeded stream of choices. Streams with other labels do not disturb each other."""

    def __init__(self, seed: int, label: str) -> None:
        digest = blake2b(f"{seed}/{label}".encode(), digest_size=16).digest()
        self.random = random.Random(int.from_bytes(digest, "big")).random

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def happens(self, share: float) -> bool:
        return self.random() < share

    def skewed(self, n: int) -> int:
        """A number below n, the lower the likelier: a Zipf-like long tail."""
        u = self.random()
        return int(u * u * u * n)

    def distinct(self, count: int, n: int) -> list[int]:
        """Up to `count` different numbers below n, in random order."""
        taken: dict[int, None] = {}
        while len(taken) < min(count, n):
            taken[self.below(n)] = None
        return list(taken)


def weighted(table: Iterable[tuple[T, int]]) -> list[T]:
    """Each item as often as its weight says, so that a plain pick follows the weights."""
    return [item for item, weight in table for _ in range(weight)]


class Quantiles:
    """A distribution given by some of its quantiles, straight in between."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._shares = [share for share, _ in points]
        self._values = [value for _, value in points]

    def at(self, u: float) -> float:
        i = min(bisect_right(self._shares, u), len(self._shares) - 1)
        low, high = self._shares[i - 1], self._shares[i]
        base = self._values[i - 1]
        return base + (self._values[i] - base) * (u - low) / (high - low)
