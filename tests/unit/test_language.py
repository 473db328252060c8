"""Which reviews are taken for English."""

import subprocess
import sys

import pytest

from booksan.language import is_english

IN_ENGLISH = (
    "bad",
    "trash",
    "meh",
    "boring",
    "DO NOT BUY",
    "refund pls",
    "this game suks so bad",
    "buggy mess 👎",
    "0/10 would not play again",
    "what a piece of ♥♥♥♥",
    "Honestly, the soundtrack is great, but the servers are down every evening.",
    "Uninstalled after 20 minutes.\n\nThe controls are terrible!",
)
IN_OTHERS = (
    "langweilig",
    "Nach 20 Stunden habe ich aufgegeben, die Steuerung ist furchtbar.",
    "à éviter",
    "Je voulais aimer ce jeu, mais le scénario est lamentable.",
    "no lo compren",
    "não comprem, muito ruim",
    "не советую",
    "Через 2 часа вернул деньги, сюжет — полный провал.",
    "垃圾游戏",
    "つまらない",
    "쓰레기 게임",
    "nie polecam",
    "sakın almayın",
    "niet kopen, saai spel",
    "jangan beli",
)
IN_NONE = ("", " ", "\n", "...", "10/10", "👎", "😂😂😂", "♥♥♥♥", ":(", "░░▄▀░░▄", "\x00", "ᚠᚢᚦ")


@pytest.mark.parametrize("text", IN_ENGLISH)
def test_reviews_in_english_are_found_also_short_and_misspelt_ones(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize("text", IN_OTHERS)
def test_reviews_in_other_languages_are_not_english(text: str) -> None:
    assert not is_english(text)


@pytest.mark.parametrize("text", IN_NONE)
def test_texts_without_a_latin_letter_are_not_english(text: str) -> None:
    assert not is_english(text)


def test_the_answer_for_a_text_does_not_depend_on_the_texts_before_it() -> None:
    texts = [*IN_ENGLISH, *IN_OTHERS, *IN_NONE]
    forward = {text: is_english(text) for text in texts}
    backward = {text: is_english(text) for text in reversed(texts)}
    assert forward == backward


def test_long_texts_are_told_apart_too() -> None:
    english = "The combat is repetitive and the story makes no sense. "
    german = "Der Kampf wiederholt sich und die Geschichte ergibt keinen Sinn. "
    assert is_english(english * (100_000 // len(english)))
    assert not is_english(german * (100_000 // len(german)))
    assert not is_english("1" * 100_000)


def test_the_detector_is_loaded_only_when_a_text_needs_it() -> None:
    program = (
        "import sys; from booksan.language import is_english; "
        "is_english('10/10'); print('py3langid' in sys.modules); "
        "is_english('bad'); print('py3langid' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert ran.stdout.split() == ["False", "True"]
