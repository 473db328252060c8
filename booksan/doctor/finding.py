"""One line of the report."""

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    level: Level
    what: str
    found: str
    #: What to do; nothing when all is well.
    advice: str = ""


def ok(what: str, found: str) -> Finding:
    return Finding(Level.OK, what, found)


def warn(what: str, found: str, advice: str) -> Finding:
    return Finding(Level.WARN, what, found, advice)


def fail(what: str, found: str, advice: str) -> Finding:
    return Finding(Level.FAIL, what, found, advice)
