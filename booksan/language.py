"""The language of a text. One function, so that the detector behind it can be another one.

py3langid knows 97 languages, needs 4.5 MB and about 20 microseconds for a review, and gives the
same answer for the same text whatever came before it; docs/queries.md has the measured accuracy.
"""

ENGLISH = "en"


def is_english(text: str) -> bool:
    # Loaded when it is first needed: only one stage needs it, and only for some games.
    from py3langid import classify

    language, _ = classify(text)
    return bool(language == ENGLISH)
