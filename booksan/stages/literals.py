"""Python list literals in a text column, such as `['Alex Homer', "Brian O'Leary"]`."""

import ast
import re
import threading
import warnings
from functools import lru_cache

#: `['a', 'b']` with plain elements: nearly all of them, and no need to ask Python's parser.
_SIMPLE = re.compile(r"\['[^'\\\n\r]+'(?:, '[^'\\\n\r]+')*\]")

_FILTERS = threading.Lock()


def elements(text: str) -> list[str]:
    """The non-empty elements; a text that is no list literal is one element."""
    if _SIMPLE.fullmatch(text):
        return text[2:-2].split("', '")
    return list(_parsed(text))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[str, ...]:
    if "[" not in text:
        return (text,)
    try:
        value = _evaluated(text)
        if not isinstance(value, list) or any(map(_is_container, value)):
            # Containers have no one way to be written as text.
            return (text,)
        names = tuple(name for name in map(str, value) if name)
        # An escape for half a character makes no text that could be written anywhere.
        "".join(names).encode()
    except (ValueError, TypeError, SyntaxError, OverflowError, MemoryError, RecursionError):
        return (text,)
    return names


def _evaluated(text: str) -> object:
    # Warnings about odd escapes are the file's business; the filters belong to all threads.
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)


def _is_container(value: object) -> bool:
    return isinstance(value, list | tuple | set | dict)
