"""The polarity is TextBlob's, to the last bit."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from textblob import TextBlob

from booksan.sentiment import polarities, polarity
from tests.unit.test_sentiment_texts import (
    ABBREVIATIONS,
    CONTRACTIONS,
    MARK_CHARACTERS,
    MARKS,
    MODIFIERS,
    NEGATIONS,
    ODDITIES,
    PUNCTUATION,
    SHORT,
    SPACES,
    STRONG,
    WORDS,
    differences,
    in_a_column,
    mutations,
    real_texts,
    reviews,
    tangles,
)

EXAMPLES = [
    "",
    " \n\t ",
    "good",
    "a very good book",
    "not good",
    "not a very good book",
    "not of good",
    "not is good",
    "really not good",
    "really no good",
    "very not good",
    "really never a good",
    "very of it good",
    "very the good",
    "very very very good",
    "not not good",
    "good! bad",
    "Great book!!! Not bad!!",
    "! good",
    "terrible!!!!!!!!!! not terrible!!!!!!",
    "very :) good",
    "very ♥ good",
    "not ♥ good",
    "not :) good",
    "very (!) good",
    "don't like it, can't be good, isn't bad",
    "good(!)",
    "good ( ! ) bad",
    "good (\n\n!\n\n) bad",
    "a :( ! ) b",
    ":-) :o) :c) >:o ) > :o) x :o )",
    "page 8) and (1998) and 8 ) and 8-)",
    "chapter: 3 and note: s and fox D end",
    "to_O to _O to _ O o. O o . O a.o. O >. > > . >",
    "very to _O good",
    "very so .O good",
    ": END-OF-SENTENCE ) :END-OF-SENTENCE) :\n\n) :\n\nD :\n) x\n\n D",
    ": -\n\n. and :-. and :- .",
    "Mr. good U.S. good etc. good cop. good X|. good Mr.) good",
    "good.bad good...bad good... .good ...good good.... good..",
    "“good” ‘bad’ 'good' \"bad\" good's n't can'tgood",
    "GOOD Good gOOd NOT good",
    "xD XD x-d X-D :d ;d :P",
    "good\x1cbad\x85good\u3000bad\u200bgood\ufeffbad",
    "go\x00od good\x00 \ud800 good\udfff bad",
    "goo\u0301d good\u0301 İ good ß",
    "13th f*cking thought-provoking can't won't",
    "happily terribly simply ably uglily",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_gives_the_number_of_textblob(text: str) -> None:
    assert differences([text]) == []


def test_the_examples_say_something() -> None:
    assert len(set(polarities(EXAMPLES))) > len(EXAMPLES) // 2


def test_one_text_and_a_column_agree() -> None:
    assert [polarity(text) for text in EXAMPLES] == polarities(EXAMPLES)
    assert in_a_column(EXAMPLES) == polarities(EXAMPLES)
    assert polarities([]) == in_a_column([]) == []


def test_the_order_of_texts_does_not_matter() -> None:
    assert polarities(EXAMPLES[::-1]) == polarities(EXAMPLES)[::-1]


def test_the_polarity_is_a_float_even_for_nothing() -> None:
    assert all(type(number) is float for number in polarities(["", "good", "the", "!"]))
    assert math.copysign(1, polarity("")) == 1


def test_every_real_text_has_the_number_of_textblob() -> None:
    assert differences(real_texts()) == []


def test_mutated_real_texts_have_the_number_of_textblob() -> None:
    assert differences(mutations(1, real_texts(), 3_000)) == []


def test_generated_reviews_have_the_number_of_textblob() -> None:
    assert differences(reviews(1, 1_500)) == []


def test_tangles_have_the_number_of_textblob() -> None:
    assert differences(tangles(1, 6_000)) == []


def test_every_lexicon_word_counts_alone_modified_and_negated() -> None:
    texts = [f"{before}{word}" for word in WORDS for before in ("", "very ", "not ")]
    assert differences(texts) == []


def test_every_character_counts_as_in_textblob() -> None:
    """White space, letters and quotes are the same set, and so is what lower case does."""
    step = 24
    texts = [
        " ".join(f"not{chr(code)}good{chr(code)} {chr(code)}" for code in range(at, at + step))
        for at in range(0, 0x3100, step)
    ]
    assert differences(texts) == []


def test_a_mark_torn_at_any_place_is_put_together_as_in_textblob() -> None:
    texts = [
        before + mark[:i] + gap + mark[i:] + after
        for mark in sorted(set(MARKS))
        for i in range(len(mark) + 1)
        for gap in ("", " ", "\n", "\n\n")
        for before in ("very ", "very x", "very >")
        for after in (" good", "good", ") good")
    ]
    assert differences(texts) == []


def test_a_known_word_that_a_smiley_begins_in_is_lost_as_in_textblob() -> None:
    words = [word for word in WORDS if word[-1] in "xo8c"]
    assert "complex" in words
    texts = [
        f"very {form} {rest} good"
        for word in words
        for form in (word, word.upper(), f"({word}", f"{word}'s", f"{word},")
        for rest in ("D", "- D", "-D.", "_O", "_ O", ".O", ")", "\n\nD")
    ]
    assert differences(texts) == []


pieces = st.sampled_from(
    sorted(set(WORDS + MODIFIERS + STRONG))
    + (NEGATIONS + SHORT + PUNCTUATION + ABBREVIATIONS + CONTRACTIONS) * 12
    + (MARKS + MARK_CHARACTERS + ODDITIES + SPACES) * 12
)
gaps = st.sampled_from(SPACES + [""] * 8)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(pieces, gaps), max_size=16))
def test_any_mix_of_what_counts_has_the_number_of_textblob(parts: list[tuple[str, str]]) -> None:
    assert differences(["".join(piece + gap for piece, gap in parts)]) == []


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=40))
@example("\ud83d\ude00 good")
def test_any_text_at_all_has_the_number_of_textblob(text: str) -> None:
    assert differences([text]) == []


texts_of_pieces = st.lists(st.tuples(pieces, gaps), max_size=8).map(
    lambda parts: "".join(piece + gap for piece, gap in parts)
)
columns = st.lists(
    st.one_of(
        texts_of_pieces,
        st.text(max_size=12),
        st.sampled_from(
            ["", " ", "\n\n", "\ud83d\ude00 good", "good" * 5, "very " * 9_000 + "good"]
        ),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(columns)
@example(
    [
        "good :",
        ") bad",
        "",
        "",
        "not",
        "good",
        "very",
        "! good",
        "o",
        "_O",
        "caf\xe9?",
        "good\x85bad",
    ]
)
@example(["not good" + " " * 40_000 + "! :", ") bad", "x" * 40_000 + " good"])
def test_no_text_of_a_column_changes_another(texts: list[str]) -> None:
    assert differences(texts) == []


@pytest.mark.parametrize(
    "end", ["", *".,;:!?)]}\"'-8x", "...", "!!", ").", "'s", "n't", "\xe9", "\u2019"]
)
@pytest.mark.parametrize("begin", ["", "(", '"', "un-", "a.", "9", ":", "\u201c"])
def test_a_word_of_any_length_counts_in_any_dress(begin: str, end: str) -> None:
    """What is plain goes another way in a column than what is not, so the border counts."""
    words = ["good", "no", "x", "a", "bad", "very", "etc", "Mr", "excellent", "interesting", "f*ck"]
    words += [
        "thought-provoking",
        "unbelievably",
        "goodness",
        "straightforwardly",
        "1998",
        "word:c",
    ]
    texts = [
        f"very {begin}{form}{end} good! not {begin}{form}{end} D good"
        for word in words
        for form in (word, word.title(), word.upper(), word + "." + word)
    ]
    assert differences(texts) == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit", ["...!", "ab'", "!", ".", ":", ": ", "very ", "not! ", "Xb.", "8)", "'s"]
)
def test_a_long_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    """Quadratic work would take minutes here."""
    assert polarity("good " + unit * 50) == TextBlob("good " + unit * 50).sentiment.polarity
    assert -1 <= polarity("good " + unit * 100_000) <= 1
    assert len(in_a_column(["good " + unit * 8_000] * 12)) == 12
