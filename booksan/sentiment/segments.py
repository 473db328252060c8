"""From signs to polarities.

A segment is a run of signs without a reset: no modifier and no negation reaches out of it. Only an
exclamation mark looks back further, to the last assessment of the text, wherever that was.
"""

from collections.abc import Mapping
from typing import NamedTuple

from booksan.sentiment.signs import BOOST, CONTINUE, OPEN, SHORT, Meaning

NEGATED = -0.5
BOOSTED = 1.25


class Assessed(NamedTuple):
    """What a segment adds to its text."""

    #: Exclamation marks before the first assessment: they belong to the one before the segment.
    boosts: int
    #: The polarities, with negations counted in.
    polarities: tuple[float, ...]
    #: The last one before its negation was counted in, for exclamation marks that follow.
    last: float
    last_negated: bool


class _Assessment:
    """A known word, with the modifiers and negations before it."""

    __slots__ = ("intensity", "negated", "polarity")

    def __init__(self, polarity: float, intensity: float) -> None:
        self.polarity = polarity
        self.intensity = intensity
        self.negated = False


def assess(segment: str, meaning_of: Mapping[str, Meaning]) -> Assessed:
    """Reads a segment sign by sign."""
    done: list[_Assessment] = []
    boosts = 0
    modifier: Meaning | None = None
    negation = False
    for sign in segment:
        if sign == SHORT:
            negation = False
        elif sign == BOOST:
            if done:
                done[-1].polarity = boosted(done[-1].polarity)
            else:
                boosts += 1
        elif sign not in (OPEN, CONTINUE):
            modifier, negation = _read(meaning_of[sign], done, modifier, negation)
    if not done:
        return Assessed(boosts, (), 0.0, False)
    last = done[-1]
    polarities = tuple([final(each.polarity, each.negated) for each in done])
    return Assessed(boosts, polarities, last.polarity, last.negated)


def _read(
    meaning: Meaning, done: list[_Assessment], modifier: Meaning | None, negation: bool
) -> tuple[Meaning | None, bool]:
    """Takes in one sign, and gives back what reaches on to the next: modifier and negation."""
    if meaning.polarity is None:
        if modifier and modifier.negatable:
            done[-1].negated = True
            return modifier, False
        return (None if meaning.is_long else modifier), True
    if meaning.is_mark:
        done.append(_Assessment(meaning.polarity, meaning.intensity))
        return modifier, negation
    if modifier:
        last = done[-1]
        last.polarity = _clamp(meaning.polarity * last.intensity)
        last.intensity = meaning.intensity
    else:
        done.append(_Assessment(meaning.polarity, meaning.intensity))
    if negation:
        done[-1].intensity = 1.0 / done[-1].intensity
        done[-1].negated = True
    return (meaning if meaning.modifies else None), meaning.negates


def boosted(polarity: float) -> float:
    """The polarity with one exclamation mark after it."""
    return _clamp(polarity * BOOSTED)


def final(polarity: float, negated: bool) -> float:
    """The polarity with its negation counted in: "not good" is a little bad."""
    return polarity * NEGATED if negated else polarity


def _clamp(polarity: float) -> float:
    return max(-1.0, min(polarity, 1.0))
