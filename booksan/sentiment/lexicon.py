"""The words that carry a sentiment, from the installed TextBlob, if its algorithm is known."""

import hashlib
import importlib.util
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from booksan.errors import BooksanError

# Where the installed TextBlob keeps its lexicon, and whether its algorithm is the known one.
#
# Nothing here imports textblob: that alone takes half a second, since it pulls in nltk.

LEXICON = "en/en-sentiment.xml"

#: SHA-256 of each source file on the way from `TextBlob(text).sentiment` to the number, for the
#: releases 0.18.0 to 0.20.1, which all compute the same. Line ends count as "\n".
KNOWN_SOURCES: dict[str, frozenset[str]] = {
    "_text.py": frozenset(
        {
            "88a24bc9184718d6646030ca52c0a6af29f0d3732cbae1bb61e6efc0cdd03ce6",
            "d198f26dffcf573d49a7ff680a7bcf712fb15f8f195d1472b50aed6cbe2a6fb2",
        }
    ),
    "en/__init__.py": frozenset(
        {
            "27dfd0379a9ec627b0fba7ab0a35a72478c0ecb934b39d9f310df693f2ad0bf6",
        }
    ),
    "en/sentiments.py": frozenset(
        {
            "4b260df6220939b1eacee67f5c0b4f7d055721e72cb8929b501265b2063ae909",
        }
    ),
    "blob.py": frozenset(
        {
            "a0cb8fb29d4917099f460f96596b9926d7a646cf3ad0ff90e5c789d016198577",
            "e900111e42d3ab6b25baef5c92d1cafd6dac5a06e83b813e9b1246462b53c76d",
            "619ad12154a949f6c2c4c973ec49c17fb6052325ff3c29419b542cc8159a66d4",
        }
    ),
}


def textblob_directory() -> Path:
    """The directory of the textblob package that an import would find."""
    spec = importlib.util.find_spec("textblob")
    if spec is None or not spec.submodule_search_locations:
        raise BooksanError("textblob is not installed: install booksan with its dependencies")
    return Path(next(iter(spec.submodule_search_locations)))


def unknown_sources(directory: Path) -> list[str]:
    """The source files of that textblob whose contents are not known here."""
    return [name for name, known in KNOWN_SOURCES.items() if _digest(directory / name) not in known]


def _digest(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return "missing"
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


# The words that carry a sentiment, from the lexicon file of the installed TextBlob.

#: A word with this part of speech changes the strength of the word after it ("very good").
ADVERB = "RB"
ADJECTIVE = "JJ"


class Entry(NamedTuple):
    """What a word says when nothing is known about its part of speech."""

    polarity: float
    intensity: float
    modifies: bool


Scores = tuple[float, float]
Senses = dict[str | None, list[Scores]]


def read_lexicon(path: Path) -> dict[str, Entry]:
    """The entries of all words, with the adverbs that are formed from adjectives."""
    means = {
        form: {tag: _mean(scores) for tag, scores in senses.items()}
        for form, senses in _read_senses(path).items()
    }
    entries = {
        form: Entry(*_mean(list(by_tag.values())), ADVERB in by_tag)
        for form, by_tag in means.items()
    }
    # A later adjective overrules an earlier one ("simple" and "simply" both lead to "simply"), and
    # both overrule the word's own entry, so the order of the file decides.
    for form, by_tag in means.items():
        if ADJECTIVE in by_tag:
            entries[_adverb(form)] = Entry(*by_tag[ADJECTIVE], modifies=True)
    return entries


def _read_senses(path: Path) -> dict[str, Senses]:
    """The scores of each word, by part of speech, one for each sense in the file."""
    words: dict[str, Senses] = {}
    for element in ElementTree.parse(path).getroot().findall("word"):
        get = element.attrib.get
        form = get("form")
        if form:
            scores = float(get("polarity", 0.0)), float(get("intensity", 1.0))
            words.setdefault(form, {}).setdefault(get("pos"), []).append(scores)
    return words


def _mean(scores: list[Scores]) -> Scores:
    """The mean of each column, by `sum` as in TextBlob: how it rounds differs by Python version."""
    polarities, intensities = zip(*scores, strict=True)
    return sum(polarities) / float(len(scores)), sum(intensities) / float(len(scores))


def _adverb(adjective: str) -> str:
    """The adverb of an adjective, as TextBlob forms it: happy, happily; terrible, terribly."""
    if adjective.endswith("y"):
        adjective = adjective[:-1] + "i"
    if adjective.endswith("le"):
        adjective = adjective[:-2]
    return adjective + "ly"
