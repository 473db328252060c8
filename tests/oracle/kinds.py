"""What a field may hold: each kind takes the text and gives its exact value, or refuses it."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

Value = TypeVar("Value")

#: Characters of one number or duration, and the largest exponent either way.
LENGTH_LIMIT = 400
SMALLEST_WHOLE, LARGEST_WHOLE = -(2**63), 2**63 - 1

NUMBER = re.compile(r" *([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?) *")
#: The two (?=.) ask for at least one part, and for at least one after the T.
ISO_DURATION = re.compile(
    r"P(?=.)(?:([0-9]+)W)?(?:([0-9]+)D)?"
    r"(?:T(?=.)(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
CLOCK_DURATION = re.compile(r"(?:([0-9]+) days?, )?([0-9]+):([0-5][0-9]):([0-5][0-9](?:\.[0-9]+)?)")
WEEK, DAY, HOUR, MINUTE, SECOND = 604_800, 86_400, 3_600, 60, 1


class UnreadableError(ValueError):
    """The record cannot be read."""


def number(text: str) -> Fraction:
    """The exact value of a number."""
    match = NUMBER.fullmatch(text)
    if match is None or len(text) > LENGTH_LIMIT:
        raise UnreadableError("not a number")
    if abs(int(match[2] or "0")) > LENGTH_LIMIT:
        raise UnreadableError("exponent out of range")
    return Fraction(match[1])


def whole(text: str) -> int:
    """The value of a number that is whole, however it is written."""
    value = number(text)
    if value.denominator != 1:
        raise UnreadableError("not whole")
    if not SMALLEST_WHOLE <= value <= LARGEST_WHOLE:
        raise UnreadableError("whole number out of range")
    return int(value)


def boolean(text: str) -> bool:
    """True or False in any case."""
    if not text.isascii() or text.lower() not in ("true", "false"):
        raise UnreadableError("not a boolean")
    return text.lower() == "true"


def iso_duration(text: str) -> Fraction:
    """The seconds of a duration such as P1DT2H."""
    return _seconds(text, ISO_DURATION, (WEEK, DAY, HOUR, MINUTE, SECOND))


def clock_duration(text: str) -> Fraction:
    """The seconds of a duration such as 1 day, 2:03:04."""
    return _seconds(text, CLOCK_DURATION, (DAY, HOUR, MINUTE, SECOND))


def unless_lacking(kind: Callable[[str], Value], text: str) -> Value | None:
    """The value of a field, None where it is lacking."""
    return None if text == "" else kind(text)


def _seconds(text: str, form: re.Pattern[str], units: tuple[int, ...]) -> Fraction:
    match = form.fullmatch(text)
    if match is None or len(text) > LENGTH_LIMIT:
        raise UnreadableError("not a duration")
    amounts = (Fraction(part or "0") for part in match.groups())
    return sum((a * unit for a, unit in zip(amounts, units, strict=True)), Fraction(0))
