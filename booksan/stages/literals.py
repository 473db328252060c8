"""Python list literals in a text column, such as `['Alex Homer', "Brian O'Leary"]`."""

import ast
import re
import warnings
from functools import lru_cache

#: `['a', 'b']` with plain elements: nearly all of them, and no need to ask Python's parser.
_SIMPLE = re.compile(r"\['[^'\\\n\r]+'(?:, '[^'\\\n\r]+')*\]")


def elements(text: str) -> list[str]:
    """The non-empty elements; a text that is no list literal is one element."""
    if _SIMPLE.fullmatch(text):
        return text[2:-2].split("', '")
    return list(_parsed(text))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[str, ...]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return (text,)
    if not isinstance(value, list) or any(isinstance(e, list | tuple | set | dict) for e in value):
        # Containers have no one way to be written as text.
        return (text,)
    names = tuple(name for name in map(str, value) if name)
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        # An escape for half a character: no text that could be written anywhere.
        return (text,)
    return names
