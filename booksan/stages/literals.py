"""Python list literals in a text column, such as `['Alex Homer', "Brian O'Leary"]`.

Python's own parser takes 500 bytes for each byte of a long list and stops everything meanwhile. So
lists are scanned here, in time and memory that grow with the text alone, and only crumbs of bounded
length are given to Python: sums such as `1+2j`, and what stands around the brackets.
"""

import ast
import codecs
import re
from functools import lru_cache

#: `['a', 'b']` with plain elements: nearly all of them.
_SIMPLE = re.compile(r"\['[^'\\\n\r]++'(?:, '[^'\\\n\r]++')*+\]")
#: Characters of a text that is taken apart at once, or kept: those of a long one share what they
#: have in common instead.
SHORT = 256
#: Texts that are kept: at most some 10 KB each with their elements.
KEPT = 4096
#: Characters around the brackets, and of a sum: more is no list literal.
MAX_CRUMB = 1000
#: Sums in one list: more is no list literal.
MAX_SUMS = 1000
#: Elements of one text that are looked for among later ones.
_SHARED = 4096
#: Brackets and parentheses that Python's tokenizer takes within each other.
_MAX_DEPTH = 200

_BLANK = r"(?:[ \t\f\n]|\\\n|\#[^\n]*\n)*+"
_SKIP = re.compile(_BLANK)
_BLANKS = " \t\f\n\\#"
_BEFORE = re.compile(r"(?:[ \t\f\n(]|\\\n|\#[^\n]*\n)*+(?=\[)")
_AFTER = re.compile(r"(?:[ \t\f\n)]|\\\n|\#[^\n]*+)*+")
#: The frequent elements, up to where the next one begins; the last group is a float.
_FREQUENT = re.compile(
    r"""(?:'([^'\\\n]*+)'(?!')|"([^"\\\n]*+)"(?!")|(-?[1-9][0-9]{0,17}+|0)"""
    rf"""|(-?[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?+)){_BLANK},{_BLANK}"""
)
_FLOAT = 4
#: The most frequent ones of long lists, many in a row: Python splits them at once.
_RUN = re.compile(
    r"((?:'[^'\\\n]++', ){8,4096}+)"
    r"|((?:(?:-?[1-9][0-9]{0,17}+|0),){8,4096}+)|((?:(?:-?[1-9][0-9]{0,17}+|0), ){8,4096}+)"
)
#: What stands before, between and behind the elements of each kind of run.
_FRAMES = {1: ("'", "', '", "', "), 2: ("", ",", ","), 3: ("", ", ", ", ")}
_STRING = re.compile(
    r"""(?P<prefix>[rRuUbB]|[bB][rR]|[rR][bB]|)
    (?:'''((?:[^\\']++|\\.|'(?!''))*+)'''
    |\"""((?:[^\\"]++|\\.|"(?!""))*+)\"""
    |'(?!'')((?:[^\\'\n]++|\\.)*+)'
    |"(?!"")((?:[^\\"\n]++|\\.)*+)")""",
    re.DOTALL | re.VERBOSE,
)
_CONSTANT = re.compile(r"None|True|False|\.\.\.")
_WHOLE = re.compile(r"0[xX](?:_?[0-9a-fA-F])++|0[oO](?:_?[0-7])++|0[bB](?:_?[01])++")
_DIGITS = r"[0-9](?:_?[0-9])*+"
_INT = re.compile(r"[1-9](?:_?[0-9])*+|0(?:_?0)*+")
_REAL = re.compile(
    rf"(?:(?:{_DIGITS}\.(?:{_DIGITS})?+|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?+"
    rf"|{_DIGITS}[eE][+-]?{_DIGITS}|{_DIGITS}(?=[jJ]))([jJ]?)"
)
_SUM = re.compile(rf"(?:[0-9A-Za-z_.+()\- \t\f\n]|\\\n|\#[^\n]*\n){{1,{MAX_CRUMB}}}+(?=[,\]])")

#: What may follow a backslash in a text and in bytes; another one leaves the backslash there.
_ESCAPE = re.compile(r"\\(?:[4-7][0-7]{2}|.)", re.DOTALL)
_KNOWN = {
    False: frozenset("\n\\'\"abfnrtv01234567xNuU"),
    True: frozenset("\n\\'\"abfnrtv01234567x"),
}
_ODD = {
    False: re.compile(r"\\(?:[^\n\\'\"abfnrtv0-7xNuU]|[4-7][0-7]{2})"),
    True: re.compile(r"\\(?:[^\n\\'\"abfnrtv0-7x]|[4-7][0-7]{2})"),
}


def elements(text: str) -> list[str]:
    """The non-empty elements; a text that is no list literal is one element."""
    if len(text) > SHORT:
        return _parsed(text)
    if _SIMPLE.fullmatch(text):
        return text[2:-2].split("', '")
    return list(_kept(text))


@lru_cache(maxsize=KEPT)
def _kept(text: str) -> tuple[str, ...]:
    return tuple(_parsed(text))


def _parsed(text: str) -> list[str]:
    if "[" not in text:
        return [text]
    try:
        names = _List(text).elements()
        for name in names:
            # An escape for half a character makes no text that could be written anywhere.
            name.encode()
    except (ValueError, OverflowError, _NoLiteral):
        return [text]
    return names


class _NoLiteral(Exception):
    """The text is no list literal of plain values."""


class _List:
    """One text that is scanned once, from its first bracket on."""

    def __init__(self, text: str) -> None:
        if "\0" in text:
            raise _NoLiteral
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._text = text.lstrip(" \t")
        self._at = 0
        self._depth = 1
        self._sums = 0

    def elements(self) -> list[str]:
        before = _BEFORE.match(self._text)
        if before is None:
            raise _NoLiteral
        self._at = before.end() + 1
        self._depth += before[0].count("(")
        found = self._inside()
        after = self._text[self._at :]
        if before[0] or after:
            _check_around(before[0], after)
        return found

    def _inside(self) -> list[str]:
        """The elements up to the closing bracket, but for empty ones."""
        found: list[str] = []
        #: Equal elements of a long list are one object.
        shared: dict[str, str] = {}
        while self._next() != "]":
            if run := self._run():
                if len(shared) < _SHARED:
                    for each in run:
                        shared.setdefault(each, each)
                found.extend(map(shared.get, run, run))
                continue
            if frequent := _FREQUENT.match(self._text, self._at):
                self._at = frequent.end()
                element = frequent[frequent.lastindex or 0]
                if frequent.lastindex == _FLOAT:
                    element = str(float(element))
            else:
                element = self._element()
                if self._next() != "]":
                    self._take(",")
            if element:
                if len(shared) < _SHARED:
                    shared.setdefault(element, element)
                found.append(shared.get(element, element))
        self._at += 1
        return found

    def _run(self) -> list[str]:
        """Many elements of one kind, if such begin here; none of them is empty."""
        run = _RUN.match(self._text, self._at)
        if run is None:
            return []
        self._at = run.end()
        before, between, behind = _FRAMES[run.lastindex or 0]
        return run[0].removeprefix(before).removesuffix(behind).split(between)

    def _next(self) -> str:
        """The character after blanks and comments."""
        found = self._text[self._at : self._at + 1]
        if found in _BLANKS and (match := _SKIP.match(self._text, self._at)):
            self._at = match.end()
            found = self._text[self._at : self._at + 1]
        return found

    def _take(self, wanted: str) -> None:
        if self._next() != wanted:
            raise _NoLiteral
        self._at += 1

    def _element(self) -> str:
        begin = self._at
        opened = 0
        while self._next() == "(":
            opened += 1
            self._at += 1
            if opened + self._depth > _MAX_DEPTH:
                raise _NoLiteral
        value: object = self._strings()
        if value is None:
            value = self._plain_value()
        try:
            for _ in range(opened):
                self._take(")")
            if value is None or self._next() not in (",", "]"):
                raise _NoLiteral
        except _NoLiteral:
            value = self._sum(begin)
        return str(value)

    def _strings(self) -> str | bytes | None:
        """A string, and those beside it, which it is joined with."""
        parts: list[str | bytes] = []
        while match := _STRING.match(self._text, self._at):
            parts.append(_string(match))
            self._at = match.end()
            self._next()
        if not parts:
            return None
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            return "".join(texts)
        if texts:
            raise _NoLiteral
        return b"".join(part for part in parts if isinstance(part, bytes))

    def _plain_value(self) -> object:
        """A constant or a number; None, which stands for itself elsewhere, if there is none."""
        if match := _CONSTANT.match(self._text, self._at):
            self._at = match.end()
            return {"...": "Ellipsis"}.get(match[0], match[0])
        sign = self._text[self._at : self._at + 1]
        if sign in ("+", "-"):
            self._at += 1
            self._next()
        number = self._number()
        return -number if sign == "-" and number is not None else number

    def _number(self) -> int | float | complex | None:
        if match := _WHOLE.match(self._text, self._at):
            self._at = match.end()
            return int(match[0], 0)
        if match := _REAL.match(self._text, self._at):
            self._at = match.end()
            real = float(match[0].rstrip("jJ"))
            return complex(0.0, real) if match[1] else real
        if match := _INT.match(self._text, self._at):
            self._at = match.end()
            return int(match[0])
        return None

    def _sum(self, begin: int) -> object:
        """Numbers with signs and parentheses: Python knows what may be added to what."""
        crumb = _SUM.match(self._text, begin)
        self._sums += 1
        if crumb is None or len(crumb[0]) > MAX_CRUMB or self._sums > MAX_SUMS:
            raise _NoLiteral
        self._at = crumb.end()
        value = _evaluated(f"[{crumb[0]}\n]")
        if not isinstance(value, list) or type(value[0]) not in (int, float, complex):
            raise _NoLiteral
        return value[0]


def _check_around(before: str, after: str) -> None:
    """Parentheses, comments and empty lines: where they may be, Python knows best."""
    if len(before) + len(after) > MAX_CRUMB or not _AFTER.fullmatch(after):
        raise _NoLiteral
    if not isinstance(_evaluated(f"{before}[]{after}"), list):
        raise _NoLiteral


def _evaluated(crumb: str) -> object:
    try:
        return ast.literal_eval(crumb)
    except (TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise _NoLiteral from error


def _string(match: re.Match[str]) -> str | bytes:
    prefix, body = match["prefix"].lower(), match[match.lastindex or 0]
    if "b" in prefix:
        if not body.isascii():
            raise _NoLiteral
        return body.encode() if "r" in prefix else _bytes_of(body)
    return body if "r" in prefix or "\\" not in body else _text_of(body)


def _text_of(body: str) -> str:
    plain = _without_oddities(body, of_bytes=False)
    return codecs.decode(plain.encode("ascii", "backslashreplace"), "unicode_escape")


def _bytes_of(body: str) -> bytes:
    plain = _without_oddities(body, of_bytes=True)
    return codecs.escape_decode(plain.encode())[0]


def _without_oddities(body: str, *, of_bytes: bool) -> str:
    """The same with escapes that are no escapes, or too large for a byte, written properly."""
    if not _ODD[of_bytes].search(body):
        return body
    known = _KNOWN[of_bytes]

    @lru_cache(maxsize=_SHARED)
    def properly(escape: str) -> str:
        if len(escape) == 4:
            number = int(escape[1:], 8)
            return f"\\x{number & 0xFF:02x}" if of_bytes else f"\\u{number:04x}"
        return escape if escape[1] in known else f"\\{escape}"

    return _ESCAPE.sub(lambda match: properly(match[0]), body)
