"""Authors and categories are Python list literals; nothing in them is ever run."""

import ast
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from booksan.stages.literals import elements

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
messy = st.text(st.sampled_from("[]''',,,\"\\ \t\n\r(){}:ab1.-+jx#é"), max_size=24)


def is_container(part: object) -> bool:
    return isinstance(part, list | tuple | set | dict)


def by_definition(text: str) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError):
        return [text]
    if not isinstance(value, list) or any(map(is_container, value)):
        return [text]
    return [str(part) for part in value if str(part)]


@settings(deadline=None, max_examples=200)
@given(written=st.lists(names, max_size=6))
@example(["Martin Luther King, Jr.", "Brian O'Leary"])
@example(["', '", "'", '"', "\\", "\r", "\n"])
def test_a_list_comes_back_as_it_was_written(written: list[str]) -> None:
    assert elements(repr(written)) == [name for name in written if name]


@settings(deadline=None, max_examples=400)
@given(text=messy | messy.map("[{}]".format) | messy.map("['{}']".format))
@example("['a', 'b'")
@example("['a','b']")
@example("['a',  'b']")
@example("['a', 'b', ]")
@example("['a' 'b']")
@example("['a'], ['b']")
@example("['a']\n")
@example("  ['a']")
@example("['a'] # comment")
@example(r"['a\tb', 'a\zb']")
@example("['a\nb']")
@example("['a\rb']")
@example("['a\r\nb']")
@example("['''a\nb''']")
def test_any_text_means_what_python_says(text: str) -> None:
    if text:
        assert elements(text) == by_definition(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("['Alex Homer', 'David Sussman']", ["Alex Homer", "David Sussman"]),
        ('["Brian O\'Leary"]', ["Brian O'Leary"]),
        ("""['Ann', "O'Neil", 'Bob']""", ["Ann", "O'Neil", "Bob"]),
        ("['O\\'Neil']", ["O'Neil"]),
        ("['Kay Römer', '源氏']", ["Kay Römer", "源氏"]),
        ("['', 'a', '']", ["a"]),
        ("['']", []),
        ("[]", []),
        ("[ ]", []),
        ("[' ']", [" "]),
        ("['a', 'a']", ["a", "a"]),
        ("[None, 1, 2.50, True]", ["None", "1", "2.5", "True"]),
    ],
)
def test_lists_are_taken_apart(text: str, expected: list[str]) -> None:
    assert elements(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Fiction",
        "Alex Homer, David Sussman",
        "nan",
        "None",
        "7",
        "'Fiction'",
        "('a', 'b')",
        "{'a', 'b'}",
        "{'a': 1}",
        "['a', ",
        "'a']",
        "['a', b]",
        "['a'] + ['b']",
        "[*['a']]",
        "[x for x in 'ab']",
        "[f'a']",
        "['a', ['b']]",
        "[('a', 'b')]",
        "[{'b', 'a', 'c'}]",
        "{[]: 1}",
        "[{{}}]",
        "['\\ud800']",
        "[" * 500,
        "-" * 100_000 + "1",
        "1" + "+1" * 20_000,
        "[" + "9" * 5000 + "]",
        " ",
    ],
)
def test_a_text_that_is_no_list_of_plain_values_is_one_element(text: str) -> None:
    assert elements(text) == [text]


def test_pitfall_a_comma_inside_a_name_does_not_cut_it() -> None:
    for text in (
        "['Martin Luther King, Jr.', 'Clayborne Carson']",
        "[\"Martin Luther King, Jr.\", 'Clayborne Carson']",
    ):
        assert elements(text) == ["Martin Luther King, Jr.", "Clayborne Carson"]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('booksan.stages.never')",
        "[__import__('booksan.stages.never')]",
        "[exec('import booksan.stages.never')]",
        "[open('never', 'w').close()]",
    ],
)
def test_pitfall_data_is_never_run_as_code(text: str) -> None:
    assert elements(text) == [text]
    assert "booksan.stages.never" not in sys.modules


def test_what_is_given_out_can_be_changed_without_harm() -> None:
    text = "['a', \"b\"]"
    elements(text).append("c")
    assert elements(text) == ["a", "b"]


@pytest.mark.parametrize("text", ["[0x" + "f" * 5000 + "]", "[0x" + "f" * 300 + " + 1j]"])
def test_a_number_that_python_will_not_write_leaves_the_text_as_it_is(text: str) -> None:
    assert elements(text) == [text]


def test_threads_leave_the_warning_filters_as_they_were() -> None:
    before = list(warnings.filters)
    texts = [[f'["a\\z{thread}-{number}"]' for number in range(1_000)] for thread in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda some: [elements(text) for text in some], texts))
    assert list(warnings.filters) == before
