"""The polarity of whole texts, by tables of what was worked out before."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from booksan.sentiment.lexicon import Entry
from booksan.sentiment.signs import (
    BOOST,
    CONTINUE,
    OPEN,
    RESET,
    Assessed,
    Meaning,
    Signs,
    assess,
    boosted,
    by_length,
    final,
    shortened,
)
from booksan.sentiment.tokens import (
    END_OF_SENTENCE,
    LETTER_HEADS,
    PUNCTUATION,
    QUOTES,
    continues_o,
    is_abbreviation,
    may_continue,
    may_go_on,
    show_empty_lines,
    tokens_of_chunk,
    whole_tokens,
)

if TYPE_CHECKING:
    from booksan.sentiment.column import Column

# A table of what was worked out before, of bounded size.

Value = TypeVar("Value")

#: Entries of a table. A full one forgets every other entry: what is frequent comes back at once,
#: and what was frequent only once goes in time.
MAX_ENTRIES = 1 << 17
#: Longer keys are not remembered (characters): they are rare, and would take up the memory.
MAX_KEY = 32


class Table(dict[str, Value]):
    """A dictionary that works out what it lacks: the fastest look-up that Python has."""

    def __missing__(self, key: str) -> Value:
        value = self.work_out(key)
        if len(key) <= MAX_KEY:
            if len(self) >= MAX_ENTRIES:
                self._forget_half()
            self[key] = value
        return value

    def _forget_half(self) -> None:
        # The list is made at once; another thread may add to the table meanwhile.
        kept = dict(list(self.items())[::2])
        self.clear()
        self.update(kept)

    def work_out(self, key: str) -> Value:
        """The value of a key, which depends on nothing else."""
        raise NotImplementedError


# What a chunk, the text between white space, does to the polarity of its text.

_TORN = OPEN + CONTINUE
_EDGES = PUNCTUATION + "."
# One of these is in every smiley and sarcasm mark that is taken apart within one chunk, or else it
# is an 8 with a bracket after it.
_SMILING = frozenset(":;=*!")
_PLAIN_END = re.compile(r"""[!?,.)\]"']*|;[!?,."]*|:""")
# After a letter none of these belongs to a smiley that began before it.
_SIGN_OF_END = {",": "", ".": "", "?": "", ")": "", '"': "", "!": BOOST, ":": OPEN, ";": OPEN}


class Chunks(Table[str]):
    """Chunk to signs."""

    def __init__(self, signs: Signs) -> None:
        super().__init__()
        self._signs = signs
        self.special = signs.special
        known = (*signs.special, END_OF_SENTENCE.lower())
        self.cores = frozenset(token.strip(_EDGES) for token in known)
        # The short cuts take for granted that no lexicon gives a polarity to what they cut off.
        may_cut = all(signs.special.get(end, BOOST) == BOOST for end in (*_EDGES, "...", "n"))
        #: What a mark after a word adds to its signs.
        self.sign_of_end = _SIGN_OF_END if may_cut else {}

    def work_out(self, key: str) -> str:
        # Most new chunks are plain words, alone or with one punctuation mark after them. They come
        # first, and without further calls.
        if key.isalpha() and len(key) > 2:
            found = self.special.get(key.lower(), RESET)
            return found + OPEN if key[-1] in LETTER_HEADS else found
        if not self.sign_of_end:
            return self._take_apart(key)
        word = key[:-1]
        if word.isalpha() and len(word) > 2 and (last := key[-1]) in self.sign_of_end:
            lower = word.lower()
            # A full stop may belong to the word, and make a known word of it or an unknown one.
            if last != "." or lower not in self.cores or not is_abbreviation(key):
                return self.special.get(lower, RESET) + self.sign_of_end[last]
        short_cut = self._core_and_edges(key)
        return self._take_apart(key) if short_cut is None else short_cut

    def _core_and_edges(self, chunk: str) -> str | None:
        """The signs of a single word with any punctuation around it.

        What is split from its ends is too short to count, except for exclamation marks, and for
        dots, which do what an unknown word does.
        """
        core = chunk.strip(_EDGES)
        lower = core.lower()
        if _has_quote(core):
            return self._around_quote(chunk)
        if len(core) > 2 and lower not in self.cores:
            # Whatever a full stop or a smiley makes of it, it stays an unknown word.
            found = RESET
        elif core.isalnum() and _is_certain_token(core, chunk):
            found = self.special.get(lower, by_length(lower))
        else:
            return None
        if core != chunk or len(core) < 3:
            before, _, after = chunk.partition(core)
            if not (_SMILING.isdisjoint(before) and _is_plain_end(after)):
                return None
            if BOOST in after:
                found += BOOST * after.count(BOOST)
            if (before or len(core) < 3) and may_continue((*before, core)):
                found = CONTINUE + found
        return found + OPEN if may_go_on(chunk) else found

    def _around_quote(self, chunk: str) -> str | None:
        """The signs of a chunk by those of its halves, which a quote parts like white space.

        No smiley has a letter or digit after its quote.
        """
        head, quote, tail = chunk.rpartition("'" if "'" in chunk else '"')
        if quote == "'" and tail[:1] == "t" and head[-1:] == "n":
            head = head[:-1]
        if not head or not tail[:1].isalnum() or len(chunk) > MAX_KEY:
            return None
        return shortened(self[head] + self[tail].lstrip(CONTINUE))

    def _take_apart(self, chunk: str) -> str:
        tokens = tokens_of_chunk(chunk)
        hidden_end = END_OF_SENTENCE in tokens
        smiling = hidden_end or "8" in chunk or not _SMILING.isdisjoint(chunk)
        found = self._signs.of(whole_tokens(tokens) if smiling else tokens)
        if hidden_end or may_continue(tokens):
            found = (OPEN + CONTINUE if continues_o(tokens[0]) else CONTINUE) + found
        if hidden_end or may_go_on(chunk):
            found += OPEN
        return found

    def signs_of(self, text: str) -> str:
        """The signs of a text."""
        signs = "".join(map(self.__getitem__, text.split()))
        return self.look_across(text) if _TORN in signs else signs

    def look_across(self, text: str) -> str:
        """The signs of a text in which white space may tear a smiley.

        Chunks that may share a smiley are taken together, all others as they are.
        """
        chunks = show_empty_lines(text).split()
        signs = list(map(self.__getitem__, chunks))
        for first, end in _torn_runs(signs):
            tokens = [token for chunk in chunks[first:end] for token in tokens_of_chunk(chunk)]
            signs[first] = self._signs.of(whole_tokens(tokens))
            for i in range(first + 1, end):
                signs[i] = ""
        return "".join(signs)


def _has_quote(word: str) -> bool:
    if "'" in word or '"' in word:
        return True
    return not (word.isascii() or QUOTES.isdisjoint(word))


def _is_plain_end(after: str) -> bool:
    """Whether this punctuation after a word holds no smiley, not even with the end of the word."""
    return _SMILING.isdisjoint(after) or _PLAIN_END.fullmatch(after) is not None


def _is_certain_token(core: str, chunk: str) -> bool:
    """Whether these letters and digits are split from all that is around them in the chunk."""
    # The 8 may begin a smiley, and the bar go on with one that any word began.
    if core[-1] == "8" or chunk[0] == "_":
        return False
    if "." not in chunk:
        return True
    with_stop = core + "."
    return chunk.count(".") == 1 and with_stop in chunk and not is_abbreviation(with_stop)


def _torn_runs(signs: list[str]) -> list[tuple[int, int]]:
    """The runs of chunks, first and end, where each may go on with a smiley of the one before."""
    runs: list[tuple[int, int]] = []
    for i in [i for i, each in enumerate(signs) if CONTINUE in each]:
        if i > 0 and (OPEN in signs[i - 1] or signs[i].startswith(OPEN)):
            first = runs.pop()[0] if runs and runs[-1][1] == i else i - 1
            runs.append((first, i + 1))
    return runs


# The polarity of whole texts, by tables of what was seen before.
#
# `Chunks` knows the signs of a chunk, `Segments` the polarities of a segment. Nearly all of both
# come again and again, so that a text costs one look-up for each chunk and one for each segment.

# Signs that do nothing at the beginning of a segment are skipped.
_SEGMENT = re.compile("[^rs<>][^r]*")


class Segments(Table[Assessed]):
    """Segment to polarities."""

    def __init__(self, meaning_of: Mapping[str, Meaning]) -> None:
        super().__init__()
        self._meaning_of = meaning_of

    def work_out(self, key: str) -> Assessed:
        return assess(key, self._meaning_of)


#: Characters after which vectors come in: as many again take less time by what loading takes.
MANY = 1 << 22
#: Characters of a column from which on vectors are faster.
LEAST = 1 << 13


class Analyser:
    """TextBlob's polarity for a given lexicon."""

    def __init__(self, lexicon: Mapping[str, Entry]) -> None:
        signs = Signs(lexicon)
        self.chunks = Chunks(signs)
        self.segments = Segments(signs.meaning_of)
        self._column: Column | None = None
        self._seen = 0

    def polarities(self, texts: Sequence[str]) -> list[float]:
        """The polarity of each text."""
        assessed = self.segments.__getitem__
        segments_in = _SEGMENT.findall
        chain = itertools.chain.from_iterable
        means: list[float] = []
        for signs in self._signs_of(texts):
            segments = map(assessed, segments_in(signs))
            found = _with_boosts(segments) if BOOST in signs else list(chain(segments))
            # One addition after the other, for `sum` rounds better than TextBlob in newer Pythons.
            total = 0.0
            for polarity in found:
                total += polarity
            means.append(total / (len(found) or 1))
        return means

    def _signs_of(self, texts: Sequence[str]) -> Iterator[str]:
        size = sum(map(len, texts))
        self._seen += size
        if size < LEAST or self._seen < MANY:
            return map(self.chunks.signs_of, texts)
        if self._column is None:
            from booksan.sentiment.column import Column

            self._column = Column(self.chunks)
        return self._column.signs(texts)


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
