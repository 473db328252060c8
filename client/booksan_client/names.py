"""Names that a server gives to things, and that become names of files here."""

import re
from collections.abc import Iterable

from booksan_client.errors import ServerError

#: Characters of a name; a file's name has room for 255 with its ending.
_LONGEST = 64
_PLAIN = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{_LONGEST - 1}}}")
#: Files beside the answers, which no answer may replace.
RESERVED = frozenset({"rejected"})


def plain_name(kind: str, name: object) -> str:
    """The name if it can only ever name one file in one directory; whatever else is refused."""
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise ServerError(
            f"the server names {kind} {str(name)[:_LONGEST]!r}; only letters, digits and -_. are "
            "taken, so nothing was written; is it a booksan server?"
        )
    return name


def plain_names(kind: str, names: Iterable[object]) -> list[str]:
    """Several that must not meet, also where large and small letters are the same."""
    found = [plain_name(kind, name) for name in names]
    if len({name.casefold() for name in found}) < len(found):
        raise ServerError(f"the server gives two of the same name to {kind}; nothing was written")
    return found


def answer_names(names: Iterable[object]) -> list[str]:
    found = plain_names("an answer", names)
    for name in found:
        if name.casefold() in RESERVED:
            raise ServerError(
                f"the server names an answer {name!r}, which is the name of another file here; "
                "nothing was written"
            )
    return found
