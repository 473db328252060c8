"""Authors and categories are Python list literals; nothing in them is ever run."""

import ast
import sys
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from booksan.stages import literals
from booksan.stages.literals import elements

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
#: Pieces that strings, numbers, what is around them and what goes wrong with them are made of.
PIECES = r"""a é 源 \ \\ \' \" ' " \x41 \x4 \u0041 \u41 \U0001f600 \U00110000 \ud800
\N{BULLET} \N{x} \N{ \101 \777 \08 \z \é # , ]"""
BREAKS = ("\n", "\r\n", "\\\n", "\f", "\\N{KEYCAP DIGIT ONE}")
VALUES = """0 00 01 1_0 0x1F 0b1 0o8 1. .5 1e5 1e999 1.5J 01j 1j5 -1 --1 -1j 1+2j -1-2j 1+2 -(1)
(-1)+2j 1+2j+3j -(1+2j) True None ... -True nan -0.0 -0 set() () {} [] ('a',) 1.."""
inner = st.lists(st.sampled_from([*PIECES.split(), *BREAKS]), max_size=3).map("".join)
strings = st.builds(
    lambda prefix, quote, body: prefix + quote + body + quote,
    st.sampled_from(["", "", "", "r", "u", "b", "Rb", "bR", "f", "ur"]),
    st.sampled_from(["'", '"', "'''", '"""']),
    inner,
)
values = st.sampled_from(VALUES.split())
blanks = st.sampled_from(["", "", "", " ", "\n", "\t", "\f", "\r\n", "\\\n", "#, ]'\n", "\x0b"])
joined = st.lists(st.tuples(strings, blanks).map("".join), min_size=1, max_size=3).map("".join)
single = strings | joined | values
items = single | st.builds("({}{}{})".format, blanks, single, blanks)
separators = st.sampled_from([",", ",", ", ", ",\n", " ,", "", ",,", ",#]\n"])
literal = st.builds(
    "{}[{}{}]{}".format,
    st.sampled_from(
        ["", "", " ", "\n", "\n ", "(", "#[\n", "\f", "\n \f", "\\\n", "\\\n ", "-", "\ufeff"]
    ),
    blanks,
    st.lists(st.tuples(items, separators).map("".join), max_size=3).map("".join),
    st.sampled_from(
        ["", "", " ", "\n", ")", "\n\n", "#c", "\n #c", "\\\n", "\\\n\n", ",", "+[]", "\n)"]
    ),
)
messy = st.text(st.sampled_from("[]''',,,\"\\ \t\n\r(){}:ab1.-+jx#é"), max_size=24)


def is_container(part: object) -> bool:
    return isinstance(part, list | tuple | set | dict)


def by_definition(text: str) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError):
        return [text]
    if not isinstance(value, list) or any(map(is_container, value)):
        return [text]
    found = [str(part) for part in value if str(part)]
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        return [text]
    return found


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


@settings(deadline=None, max_examples=2000)
@given(text=literal)
def test_every_literal_means_what_python_says(text: str) -> None:
    assert elements(text) == by_definition(text)
    # The same for a text that is too long to be kept, whose elements are shared.
    long = text.replace("[", "[" + "'x', " * (literals.SHORT // 4), 1)
    assert elements(long) == by_definition(long)


#: Elements that come many times in a row, with what stands between them.
runs = st.builds(
    lambda element, comma, times: (element + comma) * times,
    st.sampled_from(["'a'", "'é b'", "''", '"c"', "1", "-20", "0", "-0", "007", "1_0", "1.5", "b"]),
    st.sampled_from([",", ", ", ",\n", ",  ", " ,", "", ", #\n"]),
    st.sampled_from([1, 7, 8, 9, 40, 4097]),
)


@settings(deadline=None, max_examples=200)
@given(parts=st.lists(runs | literal.map(lambda text: text.strip("[]")), max_size=4))
@example(["'a', " * 8, "'b'"])
@example(["'a', " * 8, "''', '", "b'''"])
@example(["1," * 8, "1.5"])
@example(["1," * 8, "2+3j"])
def test_runs_of_elements_mean_what_python_says(parts: list[str]) -> None:
    text = f"[{''.join(parts)}]"
    assert elements(text) == by_definition(text)


@pytest.mark.parametrize("depth", [198, 199, 200])
def test_parentheses_are_as_deep_as_in_python(depth: int) -> None:
    for text in (
        "[" + "(" * depth + "'a'" + ")" * depth + "]",
        "(" * depth + "['a']" + ")" * depth,
        "((" + "[" + "(" * (depth - 2) + "'a'" + ")" * (depth - 2) + "]" + "))",
    ):
        assert elements(text) == by_definition(text)


SIZE = 1024 * 1024


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("['ab'" + ", 'ab'" * (SIZE // 6) + "]", SIZE // 6 + 1),
        ("[" + "1," * (SIZE // 2) + "]", SIZE // 2),
        ("[" + "1.5," * (SIZE // 4) + "]", SIZE // 4),
        ("['" + "\\z" * (SIZE // 2) + "']", 1),
        ("[" + "'a'" * (SIZE // 3) + "]", 1),
        ("[" + "(" * SIZE + "]", 1),
        ("[" + "[" * SIZE + "]" * SIZE + "]", 1),
        ("[" + "-(1)," * (SIZE // 5) + "]", 1),
        ("['a'" + "\n" * SIZE + "]", 1),
    ],
)
def test_a_long_literal_takes_little_memory(text: str, count: int) -> None:
    """Python's own parser takes some hundred bytes for each of these."""
    tracemalloc.start()
    try:
        assert len(elements(text)) == count
        assert tracemalloc.get_traced_memory()[1] < 20 * SIZE
    finally:
        tracemalloc.stop()


def test_long_texts_are_not_kept() -> None:
    literals._kept.cache_clear()
    elements("[1, '" + "a" * literals.SHORT + "']")
    assert literals._kept.cache_info().currsize == 0
    elements("[1, 'a']")
    assert literals._kept.cache_info().currsize == 1


def test_beyond_the_bounds_a_text_is_one_element() -> None:
    around = "['a']" + " " * literals.MAX_CRUMB
    assert elements(around) == ["a"]
    assert elements(around + " ") == [around + " "]
    sums = "[" + "1+1j," * literals.MAX_SUMS + "]"
    assert len(elements(sums)) == literals.MAX_SUMS
    more = sums.replace("]", "1+1j]")
    assert elements(more) == [more]


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
