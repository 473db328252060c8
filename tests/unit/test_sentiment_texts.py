"""Texts for the tests of the polarity: real ones, review-like ones, tangles, and mutations.

All but the real ones follow from a seed.
"""

import csv
import functools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from textblob import TextBlob
from textblob._text import EMOTICONS
from textblob.en import sentiment

from booksan.sentiment import polarities, polarity
from booksan.sentiment.analyser import LEAST, MANY
from tests.support.real_rows import NO_REAL_ROWS, REAL_ROWS


def words_of(text: str) -> list[str]:
    return text.split()


BOOKS = REAL_ROWS / "books"

LEXICON: dict[str, Any] = dict(sentiment.items())
WORDS = [word for word in LEXICON if " " not in word]
MODIFIERS = [word for word in WORDS if "RB" in LEXICON[word]]
STRONG = [word for word in WORDS if LEXICON[word][None][2] != 1.0]
NEGATIONS = ["no", "not", "never", "n't"]
MARKS = [mark for group in EMOTICONS.values() for mark in sorted(group)] + ["(!)"] * 6
MARK_CHARACTERS = sorted(set("".join(MARKS)))
SPACES = (
    [" "] * 14
    + ["\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\n \n", "\r\r", "\t", "  ", "\x0b", "\x0c"]
    + ["\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u2028", "\u2029", "\u3000"]
    + ["\u200b", "\ufeff", "\u180e"]
)
ABBREVIATIONS = words_of(
    "a. adj. adv. al. a.m. cf. comp. cop. conf. def. ed. e.g. esp. etc. ex. fig. gen. id. i.e. int."
    " Med. Mil. Mr. n.q. orig. pl. pred. pres. p.m. ref. vs. w/ U.S. T. o. a.o. X|. Mrs. Dr. Ph.D."
    " Aeb. My. Hmm. HMM. x. O. D. s."
)
CONTRACTIONS = words_of(
    "don't can't isn't n't 'd 'm 's 'll 're 've it's I'm we've they'll DON'T n'T won't 'n't on't"
    " 8n't :sn't sn't Dn't"
)
PUNCTUATION = [*".,;:!?()[]{}`'\"@#$^&*+-|=~_“”‘’—–…/\\<>%°♥", "...", "....", "..", "!!", "!!!"]
SHORT = [*"abcdopsxDOPSX38nI", "to", "of", "is", "no", "so", "xD", "box", "1998", "O,", "3."]
ODDITIES = [
    *["\ud800", "\udfff", "e\u0301", "\u0301", "İ", "ß", "ΑΣ", "\x00", "\x07", "\x7f", "ﬁ", "ǅ"],
    *["𝐆", "👍🏽", "\u200d", "ª", "²", "Ⅷ", "\u212a", "ſo", "&quot;", "<br />", "http://a.b/c:D"],
    *["END-OF-SENTENCE", "end-of-sentence", "(END-OF-SENTENCE)", ":END-OF-SENTENCE)", "NOT"],
    *["Not", "NEVER", "Very", "REALLY", "GOOD!"],
]
FILLERS = words_of(
    "the a and of to in is it this that was with as for book read story author characters plot"
    " chapter life people world reader pages years which from they about series novel written I"
    " he she but have one all who what when by on be at or an his her their will would can there"
)


def real_texts() -> list[str]:
    """Every text of the real sample, each once: reviews, summaries, titles, descriptions."""
    texts: dict[str, None] = {}
    for name, columns in (
        ("Books_rating.csv", ("review/text", "review/summary", "Title")),
        ("books_data.csv", ("description", "Title", "categories")),
    ):
        path = BOOKS / name
        if not path.exists():
            pytest.skip(f"{NO_REAL_ROWS}: {name}")
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                texts.update(dict.fromkeys(row[column] for column in columns))
    return list(texts)


def reviews(seed: int, count: int, words: int = 60) -> Iterator[str]:
    """Texts like reviews, with warts: lost blanks, entities, shouting, smileys, odd spaces."""
    rng = random.Random(seed)
    for _ in range(count):
        sentences = [_sentence(rng) for _ in range(rng.randint(1, max(1, words // 6)))]
        yield "".join(sentence + _gap(rng) for sentence in sentences)


def _sentence(rng: random.Random) -> str:
    words = [_review_word(rng) for _ in range(rng.randint(2, 14))]
    end = rng.choice([".", ".", ".", ".", "!", "!!!", "?", "...", ". :)", "!)", ".)", ""])
    return " ".join(words).capitalize() + end


def _review_word(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.72:
        word = rng.choice(FILLERS)
    elif kind < 0.88:
        word = rng.choice(WORDS)
    else:
        groups: list[Sequence[str]] = [MODIFIERS, STRONG, NEGATIONS, CONTRACTIONS, ABBREVIATIONS]
        word = rng.choice(rng.choice(groups))
    dress = rng.random()
    if dress < 0.1:
        return word + rng.choice([",", ";", ":", ")", '"', "'s", " -", "&quot;", " (8)"])
    if dress < 0.14:
        return rng.choice(["(", '"', "'", "“", "&quot;", "*", "-"]) + word
    return word.upper() if dress < 0.16 else word


def _gap(rng: random.Random) -> str:
    return rng.choice(
        [" ", " ", " ", " ", "", "", "\n", "\n\n", "<br /><br />", rng.choice(SPACES)]
    )


def tangles(seed: int, count: int) -> Iterator[str]:
    """Short texts made of everything that the tokeniser and the rules care about."""
    rng = random.Random(seed)
    for _ in range(count):
        spacing = rng.choice((0.2, 0.5, 0.8, 0.95))
        parts: list[str] = []
        for _ in range(rng.randint(1, 14)):
            parts.append(_piece(rng))
            if rng.random() < spacing:
                parts.append(rng.choice(SPACES))
        yield "".join(parts)


def _piece(rng: random.Random) -> str:
    pools: list[Sequence[str]] = [WORDS, WORDS, MODIFIERS, STRONG, NEGATIONS, SHORT, PUNCTUATION]
    pools += [PUNCTUATION, MARK_CHARACTERS, ABBREVIATIONS, CONTRACTIONS, ODDITIES, MARKS, MARKS]
    word = rng.choice(rng.choice(pools))
    change = rng.random()
    if change < 0.15:
        return "".join(c + (rng.choice(SPACES) if rng.random() < 0.5 else "") for c in word)
    if change < 0.2:
        return rng.choice([word.upper(), word.title(), word[:-1], word + "!", word + "." + word])
    return chr(rng.randrange(0x110000)) if change < 0.21 else word


def mutations(seed: int, texts: Sequence[str], count: int, length: int = 160) -> Iterator[str]:
    """Pieces of the texts with something put in, taken out, or doubled in several places."""
    rng = random.Random(seed)
    for _ in range(count):
        text = rng.choice(texts)
        start = rng.randrange(max(1, len(text) - length))
        piece = text[start : start + length]
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(piece) + 1)
            to = min(len(piece), at + rng.randint(0, 4))
            new = rng.choice([_piece(rng), rng.choice(SPACES), "", piece[at:to] * 2])
            piece = piece[:at] + new + piece[to:]
        yield piece


def in_a_column(texts: Iterable[str]) -> list[float]:
    """The polarities of a column so large that vectors are worth their time."""
    _come_to_vectors()
    return polarities([*texts, "x" * LEAST])[:-1]


@functools.cache
def _come_to_vectors() -> None:
    polarities(["x" * MANY])


def differences(texts: Iterable[str]) -> list[tuple[str, float, float, float]]:
    """The texts for which we say another number than TextBlob, alone or in a column."""
    texts = list(texts)
    found = []
    for text, ours in zip(texts, in_a_column(texts), strict=True):
        alone = polarity(text)
        theirs = TextBlob(text).sentiment.polarity
        # There are two zeros.
        if not alone.hex() == ours.hex() == float(theirs).hex():
            found.append((text, alone, ours, theirs))
    return found


@pytest.mark.parametrize("make", [reviews, tangles])
def test_a_seed_always_gives_the_same_texts(make: Callable[[int, int], Iterator[str]]) -> None:
    assert list(make(7, 20)) == list(make(7, 20))
    assert list(make(7, 20)) != list(make(8, 20))


def test_generated_reviews_hold_what_is_hard() -> None:
    text = "".join(reviews(1, 500))
    assert all(wart in text for wart in ("!!!", ":)", "n't", "&quot;", "\n\n", "...", "(", "“"))
