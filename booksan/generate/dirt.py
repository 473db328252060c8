"""Records that no reader may accept, put between good ones, and harmless oddities around them.

A bad record is made from the good row after it, so that a reader who takes it changes an answer.
"""

from collections.abc import Iterable, Iterator

from booksan.generate.chance import Chance
from booksan.generate.files import PLAIN, Row, Style, line, quoted

TOO_FEW = "too few fields"
TOO_MANY = "too many fields"
AFTER_QUOTE = "text after a closing quote"
NOT_UTF8 = "not UTF-8"
NUL = "NUL"
NOT_A_NUMBER = "not a number"
NOT_WHOLE = "not whole"
NO_BOOLEAN = "no boolean"
NO_DURATION = "no duration"
TOO_LONG = "over 4 MiB"
UNTERMINATED = "unterminated quote"

#: One bad record for so many good ones.
EVERY = 100
#: Files with fewer rows get neither a record over the limit nor an unterminated quote.
LARGE = 1000
#: The largest record that a reader accepts, in bytes.
LIMIT = 4 * 1024 * 1024

_CRLF_SHARE = 0.02
_BLANK_SHARE = 0.005
_LONE_CR_SHARE = 0.005
_NO_NUMBERS = ("five", "4,5", "N/A", "4.0.0", "nan", "inf", "1e", "4/5", "٤", "0x4", "4_0", "-")
#: Values that a column of the kind may not hold; none of the durations is of any known form.
_WRONG = {
    NOT_A_NUMBER: _NO_NUMBERS,
    NOT_WHOLE: ("10.5", "1e-1", ".5", "9223372036854775808", "-1e19", "730.25"),
    NO_BOOLEAN: ("yes", "1", "0", "T", "True ", " false", "None", "Verdadero", "TrueFalse", "-"),
    NO_DURATION: ("PT", "P1Y", "P1M", "90", "1:2:3", "-1:00:00", "P1DT", "1:60:00", "pt1h", "1h"),
}
_NO_UTF8 = (b"caf\xe9 noir", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\x93so\x94")
_MARK = "\x01"


class Dirt:
    """Turns good rows into the records of a dirty file and remembers the bad ones in `bad`.

    `text` is the column where odd bytes go; `number` and the like, if any, are columns that must
    hold such a value.
    """

    def __init__(
        self,
        chance: Chance,
        *,
        text: int,
        number: int | None = None,
        whole: int | None = None,
        boolean: int | None = None,
        duration: int | None = None,
        oversized: bool = False,
        style: Style = PLAIN,
    ) -> None:
        self.bad: dict[str, list[int]] = {}
        self._chance = chance
        self._text = text
        self._oversized = oversized
        self._style = style
        typed = zip(_WRONG, (number, whole, boolean, duration), strict=True)
        self._typed = {kind: column for kind, column in typed if column is not None}
        self._kinds = [TOO_FEW, TOO_MANY, AFTER_QUOTE, NOT_UTF8, NUL, *self._typed]
        self._turn = chance.below(len(self._kinds))
        self._row = 0

    def records(self, rows: Iterable[Row], total: int) -> Iterator[bytes]:
        """The records of the good rows, of which there are `total`, and the bad ones."""
        chance = self._chance
        long_at = chance.below(total) if self._oversized and total >= LARGE else -1
        due = 0
        row: Row = []
        for i, row in enumerate(rows):
            if i % EVERY == 0:
                due = i + chance.below(EVERY)
            if i == due:
                yield self._bad(self._next_kind(), row)
            if i == long_at:
                yield self._bad(TOO_LONG, row)
            yield self._good(row)
        if total >= LARGE:
            yield self._bad(UNTERMINATED, row)
        elif row and chance.happens(0.5):
            yield self._bad(self._next_kind(), row)

    def _next_kind(self) -> str:
        self._turn += 1
        return self._kinds[self._turn % len(self._kinds)]

    def _good(self, row: Row) -> bytes:
        """The row as it is, but for a lone CR in place of a blank, a CRLF, a blank line before."""
        chance = self._chance
        self._row += 1
        if chance.happens(_LONE_CR_SHARE):
            row = _with(row, self._text, row[self._text].replace(" ", "\r", 1))
        end = "\r\n" if chance.happens(_CRLF_SHARE) else self._style.end
        blank = chance.pick(("\n", "\r\n", "\n\n")) if chance.happens(_BLANK_SHARE) else ""
        return f"{blank}{self._line(row)}{end}".encode()

    def _bad(self, kind: str, row: Row) -> bytes:
        self._row += 1
        self.bad.setdefault(kind, []).append(self._row)
        return self._spoiled(kind, row) + b"\n"

    def _spoiled(self, kind: str, row: Row) -> bytes:
        chance = self._chance
        if kind == TOO_FEW:
            # Two fields at least: a single empty one would be a blank line.
            return self._line(row[: 2 + chance.below(len(row) - 2)]).encode()
        if kind == TOO_MANY:
            return self._line([*row, *["extra"] * (1 + chance.below(3))]).encode()
        if kind == AFTER_QUOTE:
            return _after_quote(row, chance.below(3), self._style.delimiter)
        if kind in self._typed:
            wrong = chance.pick(_WRONG[kind])
            return self._line(_with(row, self._typed[kind], wrong)).encode()
        if kind == TOO_LONG:
            word = "page after page "
            return self._line(_with(row, self._text, word * (LIMIT // len(word) + 1))).encode()
        if kind == UNTERMINATED:
            return f'{self._line([*row[:-1], ""])}"It began well,\nand then'.encode()
        marked = self._line(_with(row, self._text, row[self._text] + _MARK)).encode()
        odd = b"\0" if kind == NUL else chance.pick(_NO_UTF8)
        return marked.replace(_MARK.encode(), odd, 1)

    def _line(self, row: Row) -> str:
        return line(row, self._style.delimiter)


def _with(row: Row, column: int, value: str) -> Row:
    return [*row[:column], value, *row[column + 1 :]]


def _after_quote(row: Row, variant: int, delimiter: str) -> bytes:
    # A reader goes on after the line of the error, so nothing of the row may come after it.
    flat = [value.replace("\n", " ") for value in row]
    first = quoted(flat[0], delimiter).strip('"')
    start = (f'"{first}"x', f'"{first}\nsecond line"x', f'"{first}" "{first}"')[variant]
    end = ("", "", f'{delimiter}"opened')[variant]
    return f"{start}{delimiter}{line(flat[1:], delimiter)}{end}".encode()
