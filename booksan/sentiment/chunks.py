"""What a chunk, the text between white space, does to the polarity of its text."""

from booksan.sentiment.emoticons import may_begin, may_continue
from booksan.sentiment.signs import CONTINUE, OPEN, RESET, Signs, shorten
from booksan.sentiment.tokens import (
    END_OF_SENTENCE,
    PUNCTUATION,
    show_empty_lines,
    tokens_of_chunk,
    whole_tokens,
)

#: Entries of a table. A full one is emptied: what is frequent comes back at once.
MAX_ENTRIES = 1 << 16
#: Longer chunks and segments are not remembered (characters).
MAX_KEY = 48

_EDGES = PUNCTUATION + "."
# Quotes, the exclamation mark, and all punctuation that a smiley can be made of within one chunk
# or begins with when it goes on from the chunk before.
_HARD = frozenset("“”‘’'\"!:;=*()[]{}")
# One of these is in every smiley or sarcasm mark that is taken apart within one chunk.
_SMILING = frozenset(":;=*8!")


class Chunks(dict[str, str]):
    """Chunk to signs. A chunk that is not there yet is worked out."""

    def __init__(self, signs: Signs) -> None:
        super().__init__()
        self._signs = signs
        self._cores = frozenset(token.strip(_EDGES) for token in signs.special)

    def __missing__(self, chunk: str) -> str:
        core = chunk.strip(_EDGES)
        # Most new chunks are unknown words. What is split from their ends is too short to count,
        # except for dots, which do what the word does.
        if len(core) > 2 and core.lower() not in self._cores and _HARD.isdisjoint(chunk):
            found = RESET + OPEN if may_begin(chunk) else RESET
        else:
            found = self._work_out(chunk)
        if len(chunk) <= MAX_KEY:
            if len(self) >= MAX_ENTRIES:
                self.clear()
            self[chunk] = found
        return found

    def _work_out(self, chunk: str) -> str:
        tokens = tokens_of_chunk(chunk)
        hidden_end = END_OF_SENTENCE in tokens
        if hidden_end or not _SMILING.isdisjoint(chunk):
            found = self._of_tokens(whole_tokens(tokens))
        else:
            found = self._of_tokens(tokens)
        if hidden_end or may_continue(tokens):
            found = CONTINUE + found
        if hidden_end or may_begin(chunk):
            found += OPEN
        return found

    def _of_tokens(self, tokens: list[str]) -> str:
        return shorten("".join(map(self._signs.of, tokens)))

    def look_across(self, text: str) -> str:
        """The signs of a text in which white space may tear a smiley.

        Chunks that may share a smiley are taken together, the others one by one.
        """
        signs: list[str] = []
        group: list[str] = []
        for chunk in show_empty_lines(text).split():
            if group and not (self[group[-1]].endswith(OPEN) and self[chunk].startswith(CONTINUE)):
                signs.append(self._of_group(group))
                group = []
            group.append(chunk)
        if group:
            signs.append(self._of_group(group))
        return "".join(signs)

    def _of_group(self, chunks: list[str]) -> str:
        if len(chunks) == 1:
            return self[chunks[0]]
        tokens = [token for chunk in chunks for token in tokens_of_chunk(chunk)]
        return self._of_tokens(whole_tokens(tokens))
