"""From signs to polarities.

A segment is a run of signs without a reset: no modifier and no negation reaches out of it. Only an
exclamation mark looks back further, to the last assessment of the text, wherever that was.
"""

from collections.abc import Iterable, Mapping

from booksan.sentiment.signs import BOOST, CONTINUE, OPEN, SHORT, Meaning

NEGATED = -0.5
BOOSTED = 1.25

_IDLE = (OPEN, CONTINUE)


class Assessed(tuple[float, ...]):
    """The polarities that a segment adds to its text, with negations counted in."""

    #: Exclamation marks before the first assessment: they belong to the one before the segment.
    boosts: int
    #: The last polarity before its negation was counted in, for exclamation marks that follow.
    last: float
    last_negated: bool

    def __new__(
        cls, polarities: Iterable[float], boosts: int, last: float, last_negated: bool
    ) -> "Assessed":
        self = super().__new__(cls, polarities)
        self.boosts = boosts
        self.last = last
        self.last_negated = last_negated
        return self


def assess(segment: str, meaning_of: Mapping[str, Meaning]) -> Assessed:
    """Reads a segment sign by sign. Only the last assessment ever changes."""
    done: list[float] = []
    boosts = 0
    last: float | None = None
    intensity, negated = 1.0, False
    modifier: Meaning | None = None
    negation = False
    for sign in segment:
        if sign == SHORT:
            negation = False
        elif sign == BOOST:
            if last is None:
                boosts += 1
            else:
                last = boosted(last)
        elif sign not in _IDLE:
            meaning = meaning_of[sign]
            polarity, strength, is_mark, modifies, _, negates, is_long = meaning
            if polarity is None:
                if modifier and modifier.negatable:
                    negated, negation = True, False
                else:
                    modifier, negation = (None if is_long else modifier), True
                continue
            if modifier and not is_mark:
                last = _clamp(polarity * intensity)
            else:
                if last is not None:
                    done.append(final(last, negated))
                last, negated = polarity, False
            intensity = strength
            if is_mark:
                continue
            if negation:
                intensity, negated = 1.0 / intensity, True
            modifier, negation = (meaning if modifies else None), negates
    if last is None:
        return Assessed((), boosts, 0.0, False)
    done.append(final(last, negated))
    return Assessed(done, boosts, last, negated)


def boosted(polarity: float) -> float:
    """The polarity with one exclamation mark after it."""
    return _clamp(polarity * BOOSTED)


def final(polarity: float, negated: bool) -> float:
    """The polarity with its negation counted in: "not good" is a little bad."""
    return polarity * NEGATED if negated else polarity


def _clamp(polarity: float) -> float:
    return max(-1.0, min(polarity, 1.0))
