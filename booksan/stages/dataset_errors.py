"""What the code of a data set raises, in words that name the file and the line of that code."""

import json
import re
import traceback
from collections.abc import Collection, Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from booksan.errors import BooksanError
from booksan_common.names import nearest
from booksan_common.params import ParamValue

#: Of entry points that are data sets.
GROUP = "booksan.datasets"
#: Characters of an error's text: some libraries tell their whole plan.
MAX_TEXT = 300

_COLUMN = re.compile(r'"([^"]*)"')
_COLUMNS = re.compile(r"valid columns: (\[.*?\])")


class DataSetError(BooksanError):
    """The code of a data set raised, or gave what nobody can use."""


class UnknownParam(KeyError):
    """A data set asks for a parameter that it does not declare."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(name)
        self.text = f"there is no parameter {name!r}; {nearest(name, known)}"


class Defaults(dict[str, ParamValue]):
    """Parameters that tell which there are when somebody asks for another one."""

    def __missing__(self, name: str) -> ParamValue:
        raise UnknownParam(name, self)


def in_words(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero (coffee.py, line 41)`"""
    if isinstance(error, DataSetError):
        return str(error)
    lines = str(error).strip().splitlines()
    text = f": {lines[0][:MAX_TEXT]}" if lines else ""
    return f"{type(error).__name__}{text}{place_of(error)}"


def explained(error: BaseException, columns: Collection[str] = ()) -> str:
    """The same for what is tried out: a name that is not known is told with the nearest one.

    `columns` are those that the code was given.
    """
    if isinstance(error, UnknownParam):
        return f"{error.text}{place_of(error)}"
    column = unknown_column(error)
    if column is None:
        return in_words(error)
    valid = _COLUMNS.search(str(error))
    known = json.loads(valid[1]) if valid else columns
    return f"there is no column {column!r}; {nearest(column, known)}{place_of(error)}"


def unknown_column(error: BaseException) -> str | None:
    """The column that polars did not find."""
    # By name, because not everybody who has an error has polars.
    found = _COLUMN.search(str(error)) if type(error).__name__ == "ColumnNotFoundError" else None
    return found[1] if found else None


def place_of(error: BaseException) -> str:
    """The innermost line of a package that brings data sets; nothing if it has no part in it."""
    # The text of a SyntaxError names its place.
    if isinstance(error, SyntaxError):
        return ""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _roots():
            place = f" ({Path(frame.f_code.co_filename).name}, line {line})"
    return place


@cache
def _roots() -> frozenset[str]:
    """The packages that bring data sets, as they are imported."""
    return frozenset(_imported_names())


def _imported_names() -> Iterator[str]:
    for point in entry_points(group=GROUP):
        yield point.value.partition(":")[0].partition(".")[0].strip()
