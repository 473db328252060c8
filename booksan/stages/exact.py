"""Sums of floats without any rounding, so that no order of arrival changes a bit.

A sum is kept as an expansion: floats that do not overlap and whose exact sum is the sum. Adding
a value uses the error-free sum of two floats; rounding happens once, in `math.fsum`.
"""

import math
import struct
from collections.abc import Iterable


def add(partials: list[float], values: Iterable[float]) -> list[float]:
    """The expansion of the old sum plus all values."""
    result = list(partials)
    for value in values:
        high = value
        kept = 0
        for partial in result:
            if abs(high) < abs(partial):
                high, partial = partial, high
            total = high + partial
            low = partial - (total - high)
            if low:
                result[kept] = low
                kept += 1
            high = total
        result[kept:] = [high] if high else []
    return result


def mean(partials: list[float], count: int) -> float:
    """Equal to `math.fsum(values) / count` for the values that went in."""
    return math.fsum(partials) / count


def pack(partials: list[float]) -> bytes:
    return struct.pack(f"<{len(partials)}d", *partials)


def unpack(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 8}d", data))
