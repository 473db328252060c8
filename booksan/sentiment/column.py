"""The signs of many texts at once, by vectors: no string is made for a plain word."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.typing import NDArray

from booksan.sentiment.signs import BOOST, OPEN, RESET, SHORT
from booksan.sentiment.tokens import LETTER_HEADS, is_abbreviation

# More than nine of ten chunks are plain: one or two ASCII letters, or three or more of them with
# at most one punctuation mark after them. What a plain chunk does follows from its letters, which
# are looked up as numbers. Every other chunk is cut out, and its signs are asked for.

#: Characters that are worked on at once: enough to pay for the calls, few enough for the caches.
BLOCK = 1 << 16
#: Letters that one number holds.
WIDTH = 8
#: Letters of the longest plain word.
LONGEST = 2 * WIDTH
#: The table of words has two to this power of slots, so that few words share one.
SLOT_BITS = 16
#: In the tables, beside the numbers of signs: ask, since the letters do not say enough, or since
#: several words share the slot.
ASK, SHARED = -1, -2
#: Stands for all characters beyond ASCII.
WIDE = 128
#: What may follow the signs of a word in its chunk.
ENDS = ("", BOOST, OPEN)

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - SLOT_BITS)
_MASKS = np.array([(1 << 8 * letters) - 1 for letters in range(WIDTH + 1)], "<u8")
_SPACE_CODES = [code for code in range(0x3001) if chr(code).isspace()]

Vector = NDArray[Any]


def _among(codes: Iterable[int], size: int) -> Vector:
    flags = np.zeros(size, np.bool_)
    flags[list(codes)] = True
    return flags


_SPACES = _among(_SPACE_CODES, _SPACE_CODES[-1] + 2)


class Column:
    """From the texts of a column to their signs."""

    def __init__(
        self,
        signs_of: Callable[[str], str],
        special: Mapping[str, str],
        cores: Iterable[str],
        sign_of_end: Mapping[str, str],
    ) -> None:
        """The signs of any chunk, of known words, what holds known words, and marks after words."""
        self._signs_of = signs_of
        #: The signs of words, each with all ends, one after the other.
        self._strings: list[str] = []
        self._numbers: dict[str, int] = {}
        self._marks = _among(map(ord, sign_of_end), WIDE + 1)
        self._ends = np.zeros(WIDE + 1, np.int32)
        for last, end in (*((head, OPEN) for head in LETTER_HEADS), *sign_of_end.items()):
            self._ends[ord(last)] = ENDS.index(end)
        self._reset = self._number(RESET)
        self._keys = np.zeros(1 << SLOT_BITS, "<u8")
        self._words = np.full(1 << SLOT_BITS, self._reset, np.int32)
        self._fill({core: self._number_of(core, special) for core in cores if _is_plain(core)})
        self._shorts = np.full(WIDE * WIDE, ASK, np.int32)
        for first, second in product(ascii_letters, ("", *ascii_letters)):
            number = self._number(signs_of(first + second))
            self._shorts[ord(first) * WIDE + ord(second or "\0")] = number
        self._lengths = _lengths(self._strings)
        self._flat = _codes("".join(self._strings))

    def _number(self, signs: str) -> int:
        if signs not in self._numbers:
            self._numbers[signs] = len(self._strings)
            self._strings += [signs + end for end in ENDS]
        return self._numbers[signs]

    def _number_of(self, word: str, special: Mapping[str, str]) -> int:
        # A full stop may belong to the word, and make a known one of it or an unknown one.
        stops = is_abbreviation(word + ".") or is_abbreviation(word.capitalize() + ".")
        return ASK if stops or word not in special else self._number(special[word])

    def _fill(self, number_of: Mapping[str, int]) -> None:
        letters = np.array([word.encode() for word in number_of], f"S{LONGEST}").view("<u8")
        keys = _keys(letters[::2], letters[1::2])
        slots = _slots(keys)
        self._keys[slots] = keys
        self._words[slots] = list(number_of.values())
        used, words = np.unique(slots, return_counts=True)
        self._words[used[words > 1]] = SHARED

    def signs(self, texts: Sequence[str]) -> Iterator[str]:
        """The signs of each text."""
        block: list[str] = []
        size = 0
        for text in texts:
            if size + len(text) > BLOCK and block:
                yield from self._signs_in(block)
                block, size = [], 0
            block.append(text)
            size += len(text) + 1
        if block:
            yield from self._signs_in(block)

    def _signs_in(self, texts: list[str]) -> Iterator[str]:
        joined = " ".join(texts) + " "
        codes = _ascii(joined)
        first, last = _chunks(codes[: len(joined)])
        numbers = self._plain(codes, first, last)
        odd = np.flatnonzero(numbers == ASK)
        places = zip(first[odd].tolist(), last[odd].tolist(), strict=True)
        signs = [self._signs_of(joined[begin:end]) for begin, end in places]
        numbers[odd] = np.arange(len(odd)) + len(self._strings)
        begins = np.searchsorted(first, _sums([len(text) + 1 for text in texts]))
        return self._spelled(numbers, signs, begins)

    def _plain(self, codes: Vector, first: Vector, last: Vector) -> Vector:
        """The numbers of plain chunks, and ASK for all others."""
        lower = codes | np.uint8(32)
        letters_before = _sums(lower - np.uint8(97) < 26)
        ends = codes.take(last - 1)
        marked = self._marks.take(ends)
        length = last - first - marked
        all_letters = letters_before.take(last) - letters_before.take(first) == length
        numbers = np.full(len(first), ASK, np.int32)
        short = np.flatnonzero(all_letters & (length < 3) & ~marked)
        at = first[short]
        second = np.where(length[short] == 2, codes[at + 1], 0)
        numbers[short] = self._shorts[codes[at].astype(np.intp) * WIDE + second]
        words = np.flatnonzero(all_letters & (length > 2) & (length <= LONGEST))
        found = self._word_numbers(lower, first[words], length[words])
        numbers[words] = np.where(found < 0, ASK, found + self._ends.take(ends[words]))
        return numbers

    def _word_numbers(self, lower: Vector, first: Vector, length: Vector) -> Vector:
        eights = np.ndarray(len(lower) - WIDTH + 1, "<u8", lower, strides=(1,))
        keys = eights.take(first) & _MASKS[np.minimum(length, WIDTH)]
        long = np.flatnonzero(length > WIDTH)
        keys[long] = _keys(keys[long], eights[first[long] + WIDTH] & _MASKS[length[long] - WIDTH])
        slots = _slots(keys)
        found = self._words.take(slots)
        found = np.where((self._keys.take(slots) == keys) | (found == SHARED), found, self._reset)
        # The key of a long word may be that of another one.
        found[long[found[long] != self._reset]] = ASK
        return found

    def _spelled(self, numbers: Vector, signs: list[str], begins: Vector) -> Iterator[str]:
        """The signs of each text out of the numbers of its chunks, the last ones from this list."""
        lengths = np.concatenate((self._lengths, _lengths(signs)))
        offsets = _sums(lengths).take(numbers)
        lengths = lengths.take(numbers)
        lengths[self._is_idle(numbers)] = 0
        begin = _sums(lengths)
        flat = np.concatenate((self._flat, _codes("".join(signs))))
        index = np.arange(begin[-1]) + np.repeat(offsets - begin[:-1], lengths)
        spelled = flat.take(index).tobytes().decode("utf-32-le")
        return (spelled[i:j] for i, j in pairwise(begin[begins].tolist()))


    def _is_idle(self, numbers: Vector) -> Vector:
        """Whether the chunk is an unknown word that does nothing, for a longer one is beside it."""
        is_long = numbers == self._reset
        is_short = numbers == self._numbers[SHORT]
        idle = np.zeros(len(numbers), np.bool_)
        idle[1:] = (is_long | is_short)[1:] & is_long[:-1]
        idle[:-1] |= is_short[:-1] & is_long[1:]
        return idle


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and word.islower() and 2 < len(word) <= LONGEST


def _keys(names: Vector, rests: Vector) -> Vector:
    """Of words by their first letters and the rest; a word without a rest is its own key."""
    return names ^ rests * _SPREAD


def _slots(keys: Vector) -> Vector:
    return (keys * _SPREAD >> _SHIFT).astype(np.intp)


def _sums(values: Sequence[int] | Vector) -> Vector:
    """The sum of all values before each one, and at last of all."""
    sums = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, out=sums[1:])
    return sums


def _codes(text: str) -> Vector:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _lengths(texts: Sequence[str]) -> Vector:
    return np.fromiter(map(len, texts), np.int32, len(texts))


def _ascii(text: str) -> Vector:
    """A code for each character, and some more that words at the end can be read with."""
    text += "x" * LONGEST
    if text.isascii():
        return np.frombuffer(text.encode(), np.uint8)
    wide = _codes(text)
    codes = np.minimum(wide, WIDE).astype(np.uint8)
    at = np.flatnonzero(codes == WIDE)
    codes[at[_SPACES[np.minimum(wide[at], len(_SPACES) - 1)]]] = ord(" ")
    return codes


def _chunks(codes: Vector) -> tuple[Vector, Vector]:
    """Where each chunk begins, and where it ends."""
    spaces = np.flatnonzero(codes <= ord(" "))
    are_spaces = _SPACES.take(codes.take(spaces))
    if not are_spaces.all():
        spaces = spaces[are_spaces]
    first = np.concatenate(([0], spaces[:-1] + 1))
    full = first < spaces
    return first[full], spaces[full]
