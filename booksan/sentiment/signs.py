"""Tokens as signs, and from signs to polarities."""

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from booksan.sentiment.lexicon import Entry
from booksan.sentiment.tokens import POLARITY_OF

# Tokens as signs: one character for everything that tokens can do to the polarity.
#
# Almost all tokens only end the reach of a modifier or a negation, and those of one letter not
# even that. So a text shrinks to a short string of signs, and what does nothing leaves no sign at
# all.

#: Ends negation and modifier: an unknown word of three letters or more.
RESET = "r"
#: Ends a negation only: an unknown word of two letters.
SHORT = "s"
#: Strengthens the last assessment, whatever stands between.
BOOST = "!"
#: These do nothing. A smiley may begin at the end of a chunk, and go on in the next one: it is torn
#: only where both signs come together.
OPEN = "<"
CONTINUE = ">"

#: In these a modifier is counted in when a negation follows it ("really not").
MODIFIER_ENDING = "ly"
NEGATIONS = ("no", "not", "n't", "never")

_FIXED_SIGNS = frozenset((RESET, SHORT, BOOST, OPEN, CONTINUE))
_SHORTS = re.compile("ss+")
_RESETS = re.compile("s?r[rs]*")


class Meaning(NamedTuple):
    """What the sign of a token does."""

    #: A known word, a smiley or a sarcasm mark; None for a negation that is no known word.
    polarity: float | None
    intensity: float = 1.0
    #: A smiley is a new assessment even after a modifier, and leaves modifier and negation alone.
    is_mark: bool = False
    modifies: bool = False
    #: It modifies, and a negation after it counts for it.
    negatable: bool = False
    negates: bool = False
    #: It ends the reach of a modifier: an unknown word of three letters or more.
    is_long: bool = False


class Signs:
    """The signs of the words of a lexicon, of negations and of smileys."""

    def __init__(self, lexicon: Mapping[str, Entry]) -> None:
        self.meaning_of: dict[str, Meaning] = {}
        self._sign_of: dict[Meaning, str] = {}
        # From the smallest code on: strings of one byte for each sign are the fastest.
        self._free_signs = (chr(n) for n in itertools.count() if chr(n) not in _FIXED_SIGNS)
        #: The signs of every token that is not just an unknown word.
        self.special: dict[str, str] = {BOOST: BOOST}
        for token, polarity in POLARITY_OF.items():
            mark = self._sign(Meaning(polarity, is_mark=True))
            self.special[token] = by_length(token) + mark
        for token in NEGATIONS:
            self.special[token] = self._sign(Meaning(None, negates=True, is_long=len(token) > 2))
        for token, entry in lexicon.items():
            self.special[token] = self._known_word(token, entry)

    def of(self, tokens: Iterable[str]) -> str:
        """The signs of some tokens in a row, as few as have the same effect."""
        special = self.special.get
        found = ""
        for token in tokens:
            word = token.lower()
            signs = special(word)
            found += by_length(word) if signs is None else signs
        return shortened(found)

    def _known_word(self, word: str, entry: Entry) -> str:
        meaning = Meaning(
            entry.polarity,
            entry.intensity,
            modifies=entry.modifies,
            negatable=entry.modifies and word.endswith(MODIFIER_ENDING),
            negates=word in NEGATIONS,
        )
        # Nothing reaches past most words. The reset says so early, which keeps segments short.
        reaches_on = meaning.modifies or meaning.negates
        return self._sign(meaning) + ("" if reaches_on else RESET)

    def _sign(self, meaning: Meaning) -> str:
        sign = self._sign_of.get(meaning)
        if sign is None:
            sign = next(self._free_signs)
            self._sign_of[meaning] = sign
            self.meaning_of[sign] = meaning
        return sign


def shortened(signs: str) -> str:
    """As few signs as have the same effect."""
    return _RESETS.sub(RESET, _SHORTS.sub(SHORT, signs)) if len(signs) > 1 else signs


def by_length(token: str) -> str:
    """The sign of an unknown word, by its number of letters."""
    if len(token) > 2:
        return RESET
    return SHORT if len(token) == 2 else ""


# From signs to polarities.
#
# A segment is a run of signs without a reset: no modifier and no negation reaches out of it. Only
# an exclamation mark looks back further, to the last assessment of the text, wherever that was.

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
