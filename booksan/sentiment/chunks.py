"""What a chunk, the text between white space, does to the polarity of its text."""

from booksan.sentiment.emoticons import LETTER_HEADS, continues_o, may_continue, may_go_on
from booksan.sentiment.signs import BOOST, CONTINUE, OPEN, RESET, Signs
from booksan.sentiment.table import Table
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
_SIGN_OF_END = {",": "", "?": "", "!": BOOST, ":": OPEN, ";": OPEN}


class Chunks(Table[str]):
    """Chunk to signs."""

    def __init__(self, signs: Signs) -> None:
        super().__init__()
        self._signs = signs
        self._special = signs.special
        known = (*signs.special, END_OF_SENTENCE.lower())
        self._cores = frozenset(token.strip(_EDGES) for token in known)
        # The short cuts take for granted that no lexicon gives a polarity to what they cut off.
        self._may_cut = all(signs.special.get(end, BOOST) == BOOST for end in (*_EDGES, "...", "s"))

    def work_out(self, key: str) -> str:
        return (self._short_cut(key) if self._may_cut else None) or self._take_apart(key)

    def _short_cut(self, chunk: str) -> str | None:
        """The signs of most new chunks, without taking them apart."""
        last = chunk[-1]
        word = chunk[:-1] if last in ",.?" else chunk
        if len(word) > 2 and word.isalpha():
            lower = word.lower()
            found = self._special.get(lower, RESET)
            if last in LETTER_HEADS:
                return found + OPEN
            # A full stop may belong to the word, and make a known word of it or an unknown one.
            if last != "." or lower not in self._cores:
                return found
        elif self._is_unknown_word(chunk):
            # By characters instead of tokens it may say yes too often, which does no harm.
            begin = CONTINUE if not chunk[0].isalnum() and may_continue(chunk) else ""
            return begin + RESET + (OPEN if may_go_on(chunk) else "")
        return self._by_shorter(chunk)

    def _is_unknown_word(self, chunk: str) -> bool:
        """Whether there is nothing here but an unknown word, of three letters or more.

        What is split from its ends is too short to count, except for dots, and they do what the
        word does.
        """
        core = chunk.strip(_EDGES)
        return (
            len(core) > 2
            and core.lower() not in self._cores
            and _SMILING.isdisjoint(chunk)
            and QUOTES.isdisjoint(core)
        )

    def _by_shorter(self, chunk: str) -> str | None:
        """The signs by those of a shorter chunk, where the end is certain to be tokens of its own.

        After a letter or digit none of these ends belongs to a smiley that began before it.
        """
        shorter, end = chunk[:-1], _SIGN_OF_END.get(chunk[-1])
        if chunk.endswith("'s"):
            shorter, end = chunk[:-2], ""
        elif chunk[-1] == "." and shorter.isalpha() and not is_abbreviation(chunk):
            end = ""
        if end is None or not shorter[-1:].isalnum():
            return None
        return self[shorter] + end

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


def _torn_runs(signs: list[str]) -> list[tuple[int, int]]:
    """The runs of chunks, first and end, where each may go on with a smiley of the one before."""
    runs: list[tuple[int, int]] = []
    for i in [i for i, each in enumerate(signs) if CONTINUE in each]:
        if i > 0 and (OPEN in signs[i - 1] or signs[i].startswith(OPEN)):
            first = runs.pop()[0] if runs and runs[-1][1] == i else i - 1
            runs.append((first, i + 1))
    return runs
