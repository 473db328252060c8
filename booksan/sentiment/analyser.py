"""The polarity of whole texts, by tables of what was seen before.

`Chunks` knows the signs of a chunk, `Segments` the polarities of a segment. Nearly all of both come
again and again, so that a text costs one look-up for each chunk and one for each segment.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from booksan.sentiment.chunks import Chunks
from booksan.sentiment.lexicon import Entry
from booksan.sentiment.segments import Assessed, assess, boosted, final
from booksan.sentiment.signs import BOOST, CONTINUE, OPEN, Meaning, Signs
from booksan.sentiment.table import Table

# Signs that do nothing at the beginning of a segment are skipped.
_SEGMENT = re.compile("[^rs<>][^r]*")
_TORN = OPEN + CONTINUE


class Segments(Table[Assessed]):
    """Segment to polarities."""

    def __init__(self, meaning_of: Mapping[str, Meaning]) -> None:
        super().__init__()
        self._meaning_of = meaning_of

    def work_out(self, key: str) -> Assessed:
        return assess(key, self._meaning_of)


class Analyser:
    """TextBlob's polarity for a given lexicon."""

    def __init__(self, lexicon: Mapping[str, Entry]) -> None:
        signs = Signs(lexicon)
        self.chunks = Chunks(signs)
        self.segments = Segments(signs.meaning_of)

    def polarities(self, texts: Sequence[str]) -> list[float]:
        """The polarity of each text."""
        signs_of = self.chunks.__getitem__
        assessed = self.segments.__getitem__
        segments_in = _SEGMENT.findall
        join = "".join
        chain = itertools.chain.from_iterable
        means: list[float] = []
        for text in texts:
            signs = join(map(signs_of, text.split()))
            if _TORN in signs:
                signs = self.chunks.look_across(text)
            segments = map(assessed, segments_in(signs))
            found = _with_boosts(segments) if BOOST in signs else list(chain(segments))
            # One addition after the other, for `sum` rounds better than TextBlob in newer Pythons.
            total = 0.0
            for polarity in found:
                total += polarity
            means.append(total / (len(found) or 1))
        return means


def _with_boosts(segments: Iterable[Assessed]) -> list[float]:
    """The polarities of all segments, with exclamation marks that look back into an earlier one."""
    found: list[float] = []
    last, last_negated = 0.0, False
    for segment in segments:
        if segment.boosts and found:
            for _ in range(segment.boosts):
                last = boosted(last)
            found[-1] = final(last, last_negated)
        if segment:
            found += segment
            last, last_negated = segment.last, segment.last_negated
    return found
