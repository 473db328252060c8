"""The words that carry a sentiment, from the lexicon file of the installed TextBlob."""

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

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
