"""How TextBlob takes a text apart into tokens.

A chunk is what stands between white space. The tokens of a chunk depend on nothing but the chunk:
quotes become tokens of their own, punctuation is split from both ends, and a full stop stays with
an abbreviation. Only smileys and sarcasm marks can reach over several chunks, and only then do the
borders of sentences count, for they reach over none.
"""

import re
from collections.abc import Iterable

from booksan.sentiment.emoticons import put_together

#: The token that TextBlob puts in place of an empty line. It ends a sentence and is left out.
#: A text that holds this very word is treated the same way.
END_OF_SENTENCE = "END-OF-SENTENCE"

#: Split from both ends of a chunk, one by one. The full stop has rules of its own.
PUNCTUATION = ",;:!?()[]{}`'\"@#$^&*+-|=~_"

QUOTES = frozenset("“”‘’'\"")
_SPACED_QUOTES = {ord(quote): f" {quote} " for quote in QUOTES}
_EMPTY_LINES = re.compile(r"\n{2,}")

# Initials ("U.S."), a capital and consonants ("Mr."; the bar is TextBlob's), and some others.
_ABBREVIATION = re.compile(
    r"(?:[A-Za-z]\.)+"
    r"|[A-Z][b-df-hj-np-tv-xz|]+\."
    r"|(?:ad[jv]|al|cf|comp|conf|def|e[dx]|esp|etc|fig|gen|id|int|orig|pl|pre[ds]|ref|vs)\."
    r"|M(?:ed|il)\."
)

_STOPS = frozenset(("...", ".", "!", "?", END_OF_SENTENCE))
_CLOSERS = frozenset(("”", "’", ")"))


def tokens_of_chunk(chunk: str) -> list[str]:
    """The tokens of text without white space, smileys still taken apart."""
    tokens: list[str] = []
    if QUOTES.isdisjoint(chunk):
        _split_piece(chunk, tokens)
    else:
        # TextBlob sets other contractions apart as well, but the quote alone does that already.
        for piece in chunk.replace("n't", " n't").translate(_SPACED_QUOTES).split():
            _split_piece(piece, tokens)
    return tokens


def _split_piece(piece: str, tokens: list[str]) -> None:
    start = len(piece) - len(piece.lstrip(PUNCTUATION))
    end = len(piece)
    tail: list[str] = []
    while end > start:
        if piece[end - 1] in PUNCTUATION:
            tail.append(piece[end - 1])
            end -= 1
        elif piece.endswith("...", start, end):
            tail.append("...")
            while end > start and piece[end - 1] == ".":
                end -= 1
        elif piece[end - 1] == "." and not _ABBREVIATION.fullmatch(piece, start, end):
            tail.append(".")
            end -= 1
        else:
            break
    tokens.extend(piece[:start])
    if end > start:
        tokens.append(piece[start:end])
    tokens.extend(reversed(tail))


def is_abbreviation(token: str) -> bool:
    """Whether the full stop at the end of this token stays with it."""
    return _ABBREVIATION.fullmatch(token) is not None


def show_empty_lines(text: str) -> str:
    """The text with a token of its own for each run of empty lines."""
    return _EMPTY_LINES.sub(f" {END_OF_SENTENCE} ", text.replace("\r\n", "\n"))


def whole_tokens(tokens: Iterable[str]) -> list[str]:
    """The tokens with smileys put together, and without the ends of sentences."""
    return put_together(_join_sentences(tokens)).split()


def _join_sentences(tokens: Iterable[str]) -> str:
    """The tokens separated by blanks, and the sentences by line breaks, which no smiley crosses.

    A sentence ends after a run of stops and what closes brackets and curly quotes. Straight quotes
    would belong to the run if they were unbalanced in the sentence so far, but TextBlob looks at a
    sentence that is still empty, so they never do.
    """
    parts: list[str] = []
    ending = False
    for token in tokens:
        if token in _STOPS:
            ending = True
        elif ending and token not in _CLOSERS:
            parts.append("\n")
            ending = False
        if token != END_OF_SENTENCE:
            parts.append(token)
            parts.append(" ")
    return "".join(parts)
