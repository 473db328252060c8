"""Smileys and the sarcasm mark "(!)": what they say, and how they are found in spaced-out text.

The tokeniser takes a smiley apart (":)" becomes ":" and ")"), then patterns over the spaced tokens
put it together again. A pattern may begin inside a token, but it ends at the end of one.
"""

import re
from collections.abc import Sequence

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
