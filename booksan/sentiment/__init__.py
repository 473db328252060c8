"""The polarity of a text, equal to the last bit to TextBlob's default analyser, but faster."""

import functools
import logging
from collections.abc import Callable, Sequence

__all__ = ["polarities", "polarity"]

_log = logging.getLogger(__name__)


def polarity(text: str) -> float:
    """`TextBlob(text).sentiment.polarity` of the installed TextBlob."""
    return _analysis()([text])[0]


def polarities(texts: Sequence[str]) -> list[float]:
    """The polarity of each text of a column."""
    return _analysis()(texts)


@functools.cache
def _analysis() -> Callable[[Sequence[str]], list[float]]:
    """Our analyser, or TextBlob itself if its algorithm is not the one we know."""
    from booksan.sentiment.lexicon import LEXICON, textblob_directory, unknown_sources

    directory = textblob_directory()
    unknown = unknown_sources(directory)
    if unknown:
        _log.warning(
            "the installed textblob has an unknown algorithm (%s): using it as it is, many times"
            " slower; textblob 0.18 to 0.20.1 are known",
            ", ".join(unknown),
        )
        return _textblob_polarities
    from booksan.sentiment.analyser import Analyser
    from booksan.sentiment.lexicon import read_lexicon

    return Analyser(read_lexicon(directory / LEXICON)).polarities


def _textblob_polarities(texts: Sequence[str]) -> list[float]:
    from textblob import TextBlob

    return [TextBlob(text).sentiment.polarity for text in texts]
