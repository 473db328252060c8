"""What a chunk, the text between white space, does to the polarity of its text."""

import re

from booksan.sentiment.emoticons import LETTER_HEADS, continues_o, may_continue, may_go_on
from booksan.sentiment.signs import BOOST, CONTINUE, OPEN, RESET, Signs, by_length
from booksan.sentiment.table import MAX_KEY, Table
from booksan.sentiment.tokens import (
    END_OF_SENTENCE,
    PUNCTUATION,
    QUOTES,
    is_abbreviation,
    show_empty_lines,
    tokens_of_chunk,
    whole_tokens,
)

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
        self._special = signs.special
        known = (*signs.special, END_OF_SENTENCE.lower())
        self._cores = frozenset(token.strip(_EDGES) for token in known)
        # The short cuts take for granted that no lexicon gives a polarity to what they cut off.
        self._may_cut = all(signs.special.get(end, BOOST) == BOOST for end in (*_EDGES, "...", "n"))

    def work_out(self, key: str) -> str:
        # Most new chunks are plain words, alone or with one punctuation mark after them. They come
        # first, and without further calls.
        if key.isalpha() and len(key) > 2:
            found = self._special.get(key.lower(), RESET)
            return found + OPEN if key[-1] in LETTER_HEADS else found
        if not self._may_cut:
            return self._take_apart(key)
        word = key[:-1]
        if word.isalpha() and len(word) > 2 and (last := key[-1]) in _SIGN_OF_END:
            lower = word.lower()
            # A full stop may belong to the word, and make a known word of it or an unknown one.
            if last != "." or lower not in self._cores or not is_abbreviation(key):
                return self._special.get(lower, RESET) + _SIGN_OF_END[last]
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
        if len(core) > 2 and lower not in self._cores:
            # Whatever a full stop or a smiley makes of it, it stays an unknown word.
            found = RESET
        elif core.isalnum() and _is_certain_token(core, chunk):
            found = self._special.get(lower, by_length(lower))
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
        return self[head] + self[tail].lstrip(CONTINUE)

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
