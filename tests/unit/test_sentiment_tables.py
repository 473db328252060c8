"""The tables behind the polarity stay small, and never change an answer."""

import itertools
import re
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from textblob._text import EMOTICONS

import booksan.sentiment.analyser as tables
from booksan.sentiment import lexicon, polarities
from booksan.sentiment.analyser import Analyser
from booksan.sentiment.lexicon import read_lexicon
from booksan.sentiment.tokens import SMILEYS
from tests.unit.test_sentiment_texts import reviews, tangles


@pytest.fixture
def analyser() -> Analyser:
    return Analyser(read_lexicon(lexicon.textblob_directory() / lexicon.LEXICON))


def test_a_full_table_forgets_half_and_answers_the_same(
    analyser: Analyser, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*reviews(3, 150), *tangles(3, 500)]
    expected = polarities(texts)
    monkeypatch.setattr(tables, "MAX_ENTRIES", 20)
    for text, polarity in zip(texts, expected, strict=True):
        assert analyser.polarities([text]) == [polarity]
        assert 0 < len(analyser.chunks) <= 20
        assert len(analyser.segments) <= 20


def test_the_bound_is_kept_when_every_chunk_is_new(analyser: Analyser) -> None:
    for start in range(0, 3 * tables.MAX_ENTRIES, 10_000):
        words = [f"word{number:x}" for number in range(start, start + 10_000)]
        analyser.polarities([" ".join(words)])
        assert len(analyser.chunks) <= tables.MAX_ENTRIES


def test_what_is_remembered_longest_is_not_always_the_same(
    analyser: Analyser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_ENTRIES", 16)
    early = {f"early{number:x}" for number in range(16)}
    analyser.polarities([" ".join(sorted(early))])
    analyser.polarities([f"late{number:x}" for number in range(400)])
    assert len(early & set(analyser.chunks)) <= 1


def test_long_chunks_and_segments_are_not_remembered(analyser: Analyser) -> None:
    long_chunk = "good" * 100_000
    long_segment = "very " * 100 + "good"
    analyser.polarities([long_chunk, long_segment])
    assert max(map(len, analyser.chunks)) <= tables.MAX_KEY
    assert all(len(segment) <= tables.MAX_KEY for segment in analyser.segments)


@pytest.mark.parametrize("many", [0, tables.MANY])
def test_several_threads_may_ask_at_once(
    analyser: Analyser, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    texts = list(reviews(4, 400))
    expected = polarities(texts)
    monkeypatch.setattr(tables, "MANY", many)
    monkeypatch.setattr(tables, "MAX_ENTRIES", 50)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: analyser.polarities(texts), range(4)):
            assert found == expected


@pytest.mark.parametrize("unit", ["good ", "a ", "very! ", "x", "\xe9 "])
def test_a_large_column_takes_little_memory(analyser: Analyser, unit: str) -> None:
    column = [unit * (20_000 // len(unit))] * 30
    analyser.polarities(["x" * tables.MANY, *column[:1]])
    tracemalloc.start()
    try:
        analyser.polarities(column)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_text_of_many_megabytes_takes_memory_in_proportion(analyser: Analyser) -> None:
    text = "good ab " * (1 << 19)
    analyser.polarities([text])
    tracemalloc.start()
    try:
        analyser.polarities([text])
        assert tracemalloc.get_traced_memory()[1] < 30 * len(text)
    finally:
        tracemalloc.stop()


def test_a_small_column_does_not_load_numpy() -> None:
    code = (
        "import sys; from booksan.sentiment import polarities\n"
        "polarities(['not a very good book! :)'] * 1_000)\n"
        "assert 'numpy' not in sys.modules\n"
        "polarities(['not a very good book! :)'] * 250_000)\n"
        "assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_forked_process_goes_on_with_the_tables_it_has() -> None:
    code = (
        "import os; from booksan.sentiment import polarity\n"
        "before = polarity('not a very good book! :)')\n"
        "child = os.fork()\n"
        "after = polarity('not a very good book! :)') + polarity('never the table in it')\n"
        "if child == 0: os._exit(after != before)\n"
        "assert os.waitpid(child, 0)[1] == 0 and after == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_smileys_are_those_of_textblob_in_the_same_order() -> None:
    theirs = [(polarity, group) for (_, polarity), group in EMOTICONS.items()]
    assert [(polarity, set(group.split())) for polarity, group in SMILEYS] == theirs


def test_the_order_within_a_group_of_smileys_does_not_matter() -> None:
    """TextBlob keeps each group in a set, so its order changes from process to process."""
    for _, group in SMILEYS:
        assert not any(a.startswith(b) for a, b in itertools.permutations(group.split(), 2))


def test_split_and_the_patterns_of_textblob_agree_on_white_space() -> None:
    space = re.compile(r"\s")
    assert all(bool(space.match(chr(code))) == (not chr(code).split()) for code in range(0x110000))
