"""The polarity follows the TextBlob that is installed, or steps back for it."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from textblob import TextBlob
from textblob.en import Sentiment, parser, sentiment

import booksan.sentiment
from booksan.errors import BooksanError
from booksan.sentiment import lexicon
from booksan.sentiment.analyser import MANY, Analyser
from booksan.sentiment.lexicon import read_lexicon
from tests.unit.test_sentiment_texts import tangles


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the installed textblob's source files and lexicon."""
    installed = lexicon.textblob_directory()
    for name in (*lexicon.KNOWN_SOURCES, lexicon.LEXICON):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(installed / name, tmp_path / name)
    return tmp_path


def fresh_start(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Makes the next call look at this textblob, and the next test at the installed one."""
    monkeypatch.setattr(lexicon, "textblob_directory", lambda: directory)
    monkeypatch.setattr(booksan.sentiment, "_analysis", booksan.sentiment._analysis.__wrapped__)


def test_the_installed_textblob_is_a_known_one() -> None:
    assert lexicon.unknown_sources(lexicon.textblob_directory()) == []


@pytest.mark.parametrize("name", sorted(lexicon.KNOWN_SOURCES))
def test_any_change_of_a_source_file_is_noticed(copied: Path, name: str) -> None:
    path = copied / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert lexicon.unknown_sources(copied) == [name]
    path.unlink()
    assert lexicon.unknown_sources(copied) == [name]


def test_line_ends_of_another_system_do_not_matter(copied: Path) -> None:
    for name in lexicon.KNOWN_SOURCES:
        path = copied / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert lexicon.unknown_sources(copied) == []


def test_an_unknown_textblob_is_used_itself_and_the_log_says_so(
    copied: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fresh_start(monkeypatch, copied)
    text = copied / "_text.py"
    text.write_text(text.read_text("utf-8").replace("1.25", "1.5"), "utf-8")
    monkeypatch.setattr(TextBlob, "sentiment", type("Score", (), {"polarity": 0.123}))
    with caplog.at_level(logging.WARNING):
        assert booksan.sentiment.polarity("good") == 0.123
    assert "_text.py" in caplog.text


def test_a_known_textblob_is_not_called(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_start(monkeypatch, copied)
    monkeypatch.setattr(TextBlob, "sentiment", type("Score", (), {"polarity": 0.123}))
    assert booksan.sentiment.polarity("good") == 0.7


def test_a_missing_textblob_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(BooksanError, match="textblob is not installed"):
        lexicon.textblob_directory()


@pytest.mark.parametrize("odd", ["", "!", ",", "s", "...", "'", "(", "ab.", "etc.", "etc", "hmm"])
def test_a_changed_lexicon_is_followed(copied: Path, odd: str) -> None:
    path = copied / lexicon.LEXICON
    xml = path.read_text("utf-8")
    new = (
        '<word form="book" pos="RB" polarity="0.3" subjectivity="0" intensity="1.7" />'
        '<word form="book" pos="JJ" polarity="-0.1" intensity="0.4" />'
        '<word form="not" pos="RB" polarity="0.1" intensity="1.1" />'
        '<word form="no" polarity="-0.2" />'
        f'<word form="{odd}" pos="NN" polarity="0.9" />'
        '<word form="x" pos="JJ" polarity="1e-3" /><word polarity="1" /></sentiment>'
    )
    path.write_text(xml.replace("</sentiment>", new), "utf-8")
    theirs = Sentiment(
        path=str(path),
        synset="wordnet_id",
        negations=sentiment.negations,
        modifiers=sentiment.modifiers,
        modifier=sentiment.modifier,
        tokenizer=parser.find_tokens,
    )
    texts = [
        "not a book's, no good book!... x",
        "no ab. book, no etc. book, no Hmm. book, no hmm. book",
        "(book",
        *tangles(5, 500),
    ]
    analyser = Analyser(read_lexicon(path))
    ours = analyser.polarities(texts)
    assert ours == [theirs(text)[0] for text in texts]
    assert ours == analyser.polarities(["x" * MANY, *texts])[1:]
    assert ours[0] != booksan.sentiment.polarity(texts[0])


def test_every_entry_of_the_lexicon_is_the_one_of_textblob() -> None:
    path = lexicon.textblob_directory() / lexicon.LEXICON
    theirs = {
        word: (tags[None][0], tags[None][2], "RB" in tags) for word, tags in sentiment.items()
    }
    assert read_lexicon(path) == theirs


def test_textblob_and_nltk_are_not_imported() -> None:
    code = (
        "import sys; from booksan.sentiment import polarity;"
        "assert polarity('a very good book! :) x D') > 0;"
        "assert not {'textblob', 'nltk'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_import_builds_nothing() -> None:
    code = (
        "import sys, booksan.sentiment as s; assert s._analysis.cache_info().currsize == 0;"
        "assert not {'xml.etree.ElementTree', 'booksan.sentiment.analyser'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
