"""How TextBlob takes a text apart into tokens; smileys, and the sarcasm mark "(!)"."""

import re
from collections.abc import Iterable, Sequence

# Smileys and the sarcasm mark "(!)": what they say, and how they are found in spaced-out text.
#
# The tokeniser takes a smiley apart (":)" becomes ":" and ")"), then patterns over the spaced
# tokens put it together again. A pattern may begin inside a token, but it ends at the end of one.

#: Polarity and spellings. The order counts: where two fit at one place the earlier one is taken,
#: so ":o)" must come before ":o".
SMILEYS: tuple[tuple[float, str], ...] = (
    (1.0, "<3 ♥"),
    (1.0, ">:D :-D :D =-D =D X-D x-D XD xD 8-D"),
    (0.75, ">:P :-P :P :-p :p :-b :b :c) :o) :^)"),
    (0.5, ">:) :-) :) =) =] :] :} :> :3 8) 8-)"),
    (0.25, ">;] ;-) ;) ;-] ;] ;D ;^) *-) *)"),
    (0.05, ">:o :-O :O :o :-o o_O o.O °O° °o°"),
    (-0.25, ">:/ :-/ :/ :\\ >:\\ :-. :-s :s :S :-S >.>"),
    (-0.75, ">:[ :-( :( =( :-[ :[ :{ :-< :c :-c =/"),
    (-1.0, ":'( :'''( ;'("),
)

SARCASM = "(!)"

SPELLINGS: tuple[str, ...] = tuple(s for _, group in SMILEYS for s in group.split())


def _polarities() -> dict[str, float]:
    """By lower-case spelling. A word such as "xd" is put together but never counts as a smiley."""
    table = {SARCASM: 0.0}
    for polarity, group in SMILEYS:
        for spelling in group.lower().split():
            if not spelling.isalpha():
                table.setdefault(spelling, polarity)
    return table


POLARITY_OF: dict[str, float] = _polarities()

_SPACED_SARCASM = re.compile(r"\( ?! ?\)")
_SPACED_SMILEY = re.compile(
    "(?:" + "|".join(" ?".join(map(re.escape, each)) for each in SPELLINGS) + r")(?=$|\s)"
)


def put_together(spaced: str) -> str:
    """The tokens, separated by blanks, with the smileys and sarcasm marks as single tokens."""
    spaced = _SPACED_SARCASM.sub(SARCASM, spaced)
    return _SPACED_SMILEY.sub(lambda match: match[0].replace(" ", ""), spaced)


# How a mark looks when white space tears it: `_HEADS` may stand at the end of one chunk, `_RESTS`
# at the beginning of the next, and `_MIDDLES` may be all of it when the mark goes on further still.
_MARKS = (*SPELLINGS, SARCASM)
# Too many words end with the "o" of "o_O", so it is no head: its rare rests stand for it.
_HEADS = tuple({mark[:i] for mark in _MARKS for i in range(1, len(mark))} - {"o"})
_RESTS_OF_O = ("_", ".O")
#: The last letters of words that a mark may begin with.
LETTER_HEADS = "".join(sorted({head[-1] for head in _HEADS if head.isalpha()}))
# The ends of all middles are among them.
_HEAD_ENDS = frozenset(head[-1] for head in _HEADS)
_RESTS = frozenset(mark[i:] for mark in _MARKS for i in range(1, len(mark)))
_MIDDLES = frozenset(rest[:i] for rest in _RESTS for i in range(1, len(rest)))


def may_go_on(chunk: str) -> bool:
    """Whether a mark could begin at the end of this chunk, or before it, and go on in the next."""
    return chunk[-1] in _HEAD_ENDS and (chunk in _MIDDLES or chunk.endswith(_HEADS))


def continues_o(first_token: str) -> bool:
    """Whether a mark that may go on here may have begun with the "o" of any word."""
    return first_token in _RESTS_OF_O


def may_continue(tokens: Sequence[str]) -> bool:
    """Whether a mark that began in the chunk before could go on with these tokens of a chunk."""
    run = ""
    for token in tokens:
        run += token
        if run in _RESTS:
            return True
        if run not in _MIDDLES:
            return False
    return True


# How TextBlob takes a text apart into tokens.
#
# A chunk is what stands between white space. The tokens of a chunk depend on nothing but the
# chunk: quotes become tokens of their own, punctuation is split from both ends, and a full stop
# stays with an abbreviation. Only smileys and sarcasm marks can reach over several chunks, and
# only then do the borders of sentences count, for they reach over none.

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
