"""One table of a TOML file. Every error names the file and the key, and says what to do."""

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from booksan.errors import UsageError


def nearest(word: str, known: Collection[str]) -> str:
    """A hint at the known word that was probably meant, then all of them."""
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known: {', '.join(sorted(known))}"


class Section:
    def __init__(self, file: str, path: str, found: Mapping[str, Any]) -> None:
        self.file = file
        self.path = path
        self._found = found

    def error(self, key: str, message: str) -> UsageError:
        where = ".".join(part for part in (self.path, key) if part)
        return UsageError(f"{self.file}: {where}: {message}")

    def allow(self, *known: str) -> None:
        for key in self._found:
            if key not in known:
                raise self.error(key, f"there is no such key; {nearest(key, known)}")

    def keys(self) -> Iterator[str]:
        return iter(self._found)

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def text(self, key: str, example: str) -> str:
        value = self._found.get(key)
        if not isinstance(value, str) or not value:
            raise self.error(key, f"must be text such as {example!r}{_not(key, self._found)}")
        return value

    def whole(self, key: str, low: int) -> int:
        value = self._found.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise self.error(key, f"must be a whole number from {low} on{_not(key, self._found)}")
        return value

    def number(self, key: str, *, low: float) -> float:
        value = self._found.get(key)
        fits = (
            isinstance(value, int | float) and not isinstance(value, bool) and low <= value < 1e12
        )
        if not fits:
            raise self.error(key, f"must be a number from {low:g} on{_not(key, self._found)}")
        assert isinstance(value, int | float)
        return value

    def list_of(self, key: str, kind: type, example: str) -> list[Any]:
        value = self._found.get(key)
        # bool is an int to Python, and to nobody else.
        if not isinstance(value, list) or any(type(item) is not kind for item in value):
            raise self.error(key, f"must be a list such as {example}{_not(key, self._found)}")
        return value

    def table(self, key: str, *, needed: bool = True) -> "Section":
        path = ".".join(part for part in (self.path, key) if part)
        value = self._found.get(key)
        if value is None and not needed:
            return Section(self.file, path, {})
        if not isinstance(value, dict):
            raise self.error(key, f"must be a table, [{path}]{_not(key, self._found)}")
        return Section(self.file, path, value)


def _not(key: str, found: Mapping[str, Any]) -> str:
    return f", not {found[key]!r}" if key in found else "; it is missing"
