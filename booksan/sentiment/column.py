"""The signs of many texts at once, by vectors: no string is made for a plain word."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from string import ascii_letters, digits, punctuation
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from booksan.sentiment.signs import BOOST, CONTINUE, OPEN, RESET, SHORT
from booksan.sentiment.tokens import is_abbreviation, may_go_on

if TYPE_CHECKING:
    from booksan.sentiment.analyser import Chunks

# Nineteen of twenty chunks are plain: one or two ASCII letters, or a longer word of ASCII letters
# and digits with at most one punctuation mark after it. What a plain chunk does follows from its
# letters, which are looked up as numbers. Any other chunk is cut out and looked up as ever.

#: Characters that are worked on at once: enough to pay for the calls, few enough for the caches
#: and to be had without asking the system for memory each time. A longer text is taken as ever.
BLOCK = 1 << 16
#: Letters that one number holds.
WIDTH = 8
#: Letters of the longest plain word.
LONGEST = 2 * WIDTH
#: The table of words has two to this power of slots, so that few words share one.
SLOT_BITS = 16
#: Instead of a number: what the letters say is not enough.
ASK = -1
#: Instead of a place: several words share the slot.
SHARED = 1
#: Stands for all characters beyond ASCII.
WIDE = 128
#: What may follow the signs of a word in its chunk.
ENDS = ("", BOOST, OPEN)
#: The letters of a plain word; one of the joints between two letters makes an unknown word of it.
#: No smiley that ends with a letter has a joint.
LETTERS = ascii_letters + digits
JOINTS = ",-./"

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - SLOT_BITS)
_MASKS = np.array([(1 << 8 * letters) - 1 for letters in range(WIDTH + 1)], "<u8")
_IDLE = str.maketrans("", "", OPEN + CONTINUE)

Vector = NDArray[Any]


def _among(characters: Iterable[str], size: int = WIDE + 1) -> Vector:
    flags = np.zeros(size, np.bool_)
    flags[[ord(each) for each in characters]] = True
    return flags


#: White space is that of `str.split`; there is none beyond.
_ARE_SPACES = _among(filter(str.isspace, map(chr, range(0x3001))), 0x3002)
_SPACES = [each for each in map(chr, range(WIDE)) if each.isspace()]


class Column:
    """From the texts of a column to their signs."""

    def __init__(self, chunks: "Chunks") -> None:
        self._chunks = chunks
        #: The signs of words, each with all ends, one after the other.
        self._strings: list[str] = []
        self._numbers: dict[str, int] = {}
        self._reset, self._short, self._nothing = map(self._number, (RESET, SHORT, ""))
        self._marks = _among(chunks.sign_of_end)
        self._ends = np.zeros(WIDE + 1, np.int32)
        for last in LETTERS:
            self._ends[ord(last)] = ENDS.index(OPEN if may_go_on(f"word{last}") else "")
        for last, end in chunks.sign_of_end.items():
            self._ends[ord(last)] = ENDS.index(end)
        self._fill({core: self._number_of(core) for core in chunks.cores if _is_plain(core)})
        self._shorts = np.full((WIDE + 1) ** 2, ASK, np.int32)
        for first, second in product(ascii_letters, ascii_letters):
            self._shorts[_place(first, second)] = self._number(chunks[first + second])
        for alone in (*ascii_letters, *digits, *punctuation):
            self._shorts[[_place(alone, each) for each in _SPACES]] = self._number(chunks[alone])
        self._tears = _tears(self._strings)
        # The first of equal ones, so that unknown words are found to be such.
        self._known = {each: i for i, each in reversed(list(enumerate(self._strings)))}
        # What is torn has been found before the signs are spelled out.
        bare = [self._known[each.translate(_IDLE)] for each in self._strings]
        self._bare = np.array(bare, np.int32)
        self._resets = _resets(self._strings)
        self._lengths = _lengths(self._strings)
        self._flat = _codes("".join(self._strings))

    def _number(self, signs: str) -> int:
        if signs not in self._numbers:
            self._numbers[signs] = len(self._strings)
            self._strings += [signs + end for end in ENDS]
            self._number(signs.translate(_IDLE))
        return self._numbers[signs]

    def _number_of(self, word: str) -> int:
        # A full stop may belong to the word, and make a known one of it or an unknown one.
        stops = is_abbreviation(word + ".") or is_abbreviation(word.capitalize() + ".")
        is_sure = word.isalpha() and word in self._chunks.special and not stops
        return self._number(self._chunks.special[word]) if is_sure else ASK

    def _fill(self, number_of: Mapping[str, int]) -> None:
        """Makes the table of words: from slots to places in lists of keys and numbers."""
        letters = np.array([word.encode() for word in number_of], f"S{LONGEST}").view("<u8")
        keys = _keys(letters[::2], letters[1::2])
        used, places, words = np.unique(_slots(keys), return_index=True, return_counts=True)
        # Small, for all of it should stay in the caches.
        self._places = np.zeros(1 << SLOT_BITS, np.min_scalar_type(len(keys) + 2))
        self._places[used] = np.where(words > 1, SHARED, places + 2)
        self._keys = np.concatenate((np.zeros(2, "<u8"), keys))
        self._found = np.array([self._reset, ASK, *number_of.values()], np.int32)

    def signs(self, texts: Sequence[str]) -> Iterator[str]:
        """The signs of each text."""
        block: list[str] = []
        size = 0
        for text in texts:
            if size + len(text) >= BLOCK and block:
                yield from self._signs_in(block)
                block, size = [], 0
            if len(text) < BLOCK:
                block.append(text)
                size += len(text) + 1
            else:
                yield self._chunks.signs_of(text)
        if block:
            yield from self._signs_in(block)

    def _signs_in(self, texts: list[str]) -> Iterator[str]:
        joined = " ".join(texts) + " "
        codes = _ascii(joined)
        lower = codes | np.uint8(32)
        first, last, odds = _chunks(codes, lower, len(joined))
        numbers = self._plain(codes, lower, first, last, odds)
        odd = np.flatnonzero(numbers == ASK)
        places = zip(first[odd].tolist(), last[odd].tolist(), strict=True)
        numbers[odd], signs = self._look_up(joined[begin:end] for begin, end in places)
        begins = np.searchsorted(first, _sums([len(text) + 1 for text in texts]))
        tears = np.concatenate((self._tears, _tears(signs))).take(numbers)
        same = np.arange(len(signs)) + len(self._strings)
        numbers = np.concatenate((self._bare, same)).take(numbers)
        for run in _torn_runs(tears, begins):
            torn = joined[first[run.start] : last[run.stop - 1]]
            numbers[run] = self._nothing
            numbers[run.start] = len(self._strings) + len(signs)
            signs.append(self._chunks.look_across(torn))
        return self._spelled(numbers, signs, begins)

    def _look_up(self, chunks: Iterable[str]) -> tuple[list[int], list[str]]:
        """The numbers of the signs of chunks, and the signs that have no number elsewhere."""
        numbers: list[int] = []
        signs: list[str] = []
        known = self._known.get
        for chunk in chunks:
            found = self._chunks[chunk]
            number = known(found)
            if number is None:
                number = len(self._strings) + len(signs)
                signs.append(found)
            numbers.append(number)
        return numbers, signs

    def _plain(
        self, codes: Vector, lower: Vector, first: Vector, last: Vector, odds: Vector
    ) -> Vector:
        """The numbers of plain chunks, and ASK for all others."""
        length = last - first
        short = np.flatnonzero(length < 3)
        at = first.take(short)
        numbers = np.full(len(first), ASK, np.int32)
        numbers[short] = self._shorts.take(codes.take(at) * np.intp(WIDE + 1) + codes.take(at + 1))
        ends = codes.take(last - 1)
        marked = self._marks.take(ends)
        length -= marked
        words = np.flatnonzero((odds == marked) & (length > 2) & (length <= LONGEST))
        found = self._word_numbers(lower, first.take(words), length.take(words))
        numbers[words] = np.where(found < 0, ASK, found + self._ends.take(ends.take(words)))
        return numbers

    def _word_numbers(self, lower: Vector, first: Vector, length: Vector) -> Vector:
        eights = np.ndarray(len(lower) - WIDTH + 1, "<u8", lower, strides=(1,))
        keys = eights.take(first) & _MASKS.take(np.minimum(length, WIDTH))
        long = np.flatnonzero(length > WIDTH)
        keys[long] = _keys(keys[long], eights[first[long] + WIDTH] & _MASKS[length[long] - WIDTH])
        places = self._places.take(_slots(keys))
        known = np.flatnonzero(places)
        place = places.take(known)
        right = (self._keys.take(place) == keys.take(known)) | (place == SHARED)
        # A long word may have the key of another one.
        number = np.where(length.take(known) > WIDTH, ASK, self._found.take(place))
        found = np.full(len(keys), self._reset, np.int32)
        found[known] = np.where(right, number, self._reset)
        return found

    def _spelled(self, numbers: Vector, signs: list[str], begins: Vector) -> Iterator[str]:
        """The signs of each text out of the numbers of its chunks, the last ones from this list."""
        lengths = np.concatenate((self._lengths, _lengths(signs)))
        offsets = _sums(lengths).take(numbers)
        lengths = lengths.take(numbers)
        lengths[self._are_idle(numbers, signs)] = 0
        begin = _sums(lengths)
        flat = np.concatenate((self._flat, _codes("".join(signs))))
        index = np.arange(begin[-1]) + np.repeat(offsets - begin[:-1], lengths)
        spelled = flat.take(index).tobytes().decode("utf-32-le", "surrogatepass")
        return (spelled[i:j] for i, j in pairwise(begin[begins].tolist()))

    def _are_idle(self, numbers: Vector, signs: list[str]) -> Vector:
        """The unknown words that do nothing, since a word beside them ends what they would end."""
        resets = np.concatenate((self._resets, _resets(signs))).take(numbers)
        are_long = numbers == self._reset
        are_short = numbers == self._short
        idle = np.zeros(len(numbers), np.bool_)
        idle[1:] = (are_long | are_short)[1:] & resets[:-1]
        idle[:-1] |= are_short[:-1] & are_long[1:]
        return idle


def _is_plain(word: str) -> bool:
    plain = set(LETTERS + JOINTS)
    return 2 < len(word) <= LONGEST and word == word.lower() and plain.issuperset(word)


def _place(first: str, second: str) -> int:
    return ord(first) * (WIDE + 1) + ord(second)


def _are_odd(codes: Vector, lower: Vector) -> Vector:
    """The characters that are neither letters of a plain word nor joints of letters."""
    letters = (lower - np.uint8(ord("a")) < 26) | (codes - np.uint8(ord("0")) < 10)
    joints = codes - np.uint8(ord(JOINTS[0])) < len(JOINTS)
    joints[1:-1] &= letters[:-2] & letters[2:]
    joints[0] = False
    return ~(letters | joints)


def _tears(strings: Sequence[str]) -> Vector:
    """Whether a smiley may go on after these signs (1), came from before (2), or surely did (4)."""
    return np.array([_tear(each) for each in strings], np.uint8)


def _tear(signs: str) -> int:
    continues = CONTINUE in signs
    return (OPEN in signs) + 2 * continues + 4 * (continues and signs.startswith(OPEN))


def _resets(strings: Sequence[str]) -> Vector:
    return np.array([signs.endswith(RESET) for signs in strings], np.bool_)


def _torn_runs(tears: Vector, begins: Vector) -> list[slice]:
    """The chunks of a text that may share a smiley."""
    torn = tears >= 4
    torn[1:] |= (tears[:-1] & 1 != 0) & (tears[1:] & 2 != 0)
    torn[begins[begins < len(torn)]] = False
    runs: list[slice] = []
    for i in np.flatnonzero(torn).tolist():
        start = runs.pop().start if runs and runs[-1].stop == i else i - 1
        runs.append(slice(start, i + 1))
    return runs


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
    codes[at[_ARE_SPACES[np.minimum(wide[at], len(_ARE_SPACES) - 1)]]] = ord(" ")
    return codes


def _chunks(codes: Vector, lower: Vector, size: int) -> tuple[Vector, Vector, Vector]:
    """Where each chunk of so many characters begins and ends, and how many are odd in it."""
    odd = np.flatnonzero(_are_odd(codes, lower)[:size])
    spaces = np.flatnonzero(_ARE_SPACES.take(codes.take(odd)))
    last = odd.take(spaces)
    first = np.concatenate(([0], last[:-1] + 1))
    odds = np.diff(spaces, prepend=-1) - 1
    full = np.flatnonzero(first < last)
    return first.take(full), last.take(full), odds.take(full)
