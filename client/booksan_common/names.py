"""Names: those that a user means, those that become files, and text that steers nothing."""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence

from booksan_common.errors import ServerError, UsageError

# Text in which nothing steers a terminal, for programs that draw nothing else.

#: Escapes and other control characters, line separators, what turns the direction of writing or
#: cannot be seen, and halves of characters.
STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]+"
)


def plain(text: object) -> str:
    """One line in which nothing steers a terminal; files and JSON have everything as it is."""
    return STEERING.sub(" ", str(text))


# Names: those that a user means, and those of a server that become names of files here.

#: Characters of a name; a file's name has room for 255 with its ending.
_LONGEST = 64
_PLAIN = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{_LONGEST - 1}}}")
#: Of a run, as its directory is called.
CLIENT_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
#: Files beside the answers, which no answer may replace.
RESERVED = frozenset({"rejected"})


def nearest(word: str, known: Collection[str]) -> str:
    """A hint at the known name that was probably meant, then all of them."""
    near = similar(word, known)
    hint = f"did you mean {str(near)!r}? " if near else ""
    return f"{hint}known: {', '.join(sorted(known)) or 'none'}"


def wanted_queries(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Each once; refuses one that there is not."""
    known = list(known)
    for name in names:
        if name not in known:
            raise UsageError(f"there is no query {name!r}; {nearest(name, known)}")
    return list(dict.fromkeys(names))


def unknown_dataset(name: str, known: Collection[str]) -> str:
    """Who forgets the data set names a file in its place."""
    if "/" in name or "." in name:
        return (
            f"{name} looks like a file, and the name of the data set comes before the files; "
            f"known: {', '.join(sorted(known))}"
        )
    return f"no data set {name!r}; {nearest(name, known)}"


def similar(word: str, known: Collection[str]) -> str | None:
    """The known name that a word was probably meant for, whatever its case."""
    folded = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), folded, n=1)
    return folded[near[0]] if near else None


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
