"""Kinds of values: what a field of a source must hold, and how a column of an answer is kept.

Decimals and durations travel as the text that came in, and are compared by their exact value.
"""

import re
from enum import Enum
from fractions import Fraction

#: Characters and power of ten of a number beyond which exact arithmetic would be a burden.
MAX_CHARACTERS = 400
MAX_EXPONENT = 400

_MANTISSA = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_NUMBER = re.compile(rf" *{_MANTISSA}(?:[eE][+-]?[0-9]+)? *")
_USABLE_NUMBER = rf"^ *{_MANTISSA}(?:[eE][+-]?0*(?:{MAX_EXPONENT}|[1-3]?[0-9]?[0-9]))? *$"
_PLAIN_WHOLE = r"^[0-9]{1,18}$"
_ISO = (
    r"P(?:([0-9]+)W)?(?:([0-9]+)D)?"
    r"(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]+))?S)?)?"
)
_ISO_DURATION = re.compile(_ISO)
_CLOCK_DURATION = re.compile(
    r"(?:([0-9]+) days?, )?([0-9]+):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]+))?"
)
_WEEK, _DAY, _HOUR, _MINUTE = 604_800, 86_400, 3_600, 60


class FieldKind(Enum):
    """What a needed field must be if it is not empty; a row in which it is not is rejected."""

    NUMBER = "a number"
    #: A number whose value is whole and fits into 64 bits.
    WHOLE = "a whole number"
    BOOLEAN = "True or False"
    #: `PT7H28M`, `P1DT2H`
    ISO_DURATION = "a duration"
    #: `1:02:03`, `1 day, 2:03:04`
    CLOCK_DURATION = "a time"

    @property
    def usual(self) -> str:
        """A pattern of values that surely are of the kind; others are looked at one by one."""
        return _USUAL[self]

    def fault(self, text: str) -> str | None:
        """What is wrong with a value, if anything."""
        if self in (FieldKind.NUMBER, FieldKind.WHOLE):
            return self._number_fault(text)
        if len(text) > MAX_CHARACTERS:
            return "is too long"
        return None if self._is_right(text) else f"is not {self.value}"

    def _number_fault(self, text: str) -> str | None:
        if not _NUMBER.fullmatch(text):
            return f"is not {self.value}"
        if len(text.encode()) > MAX_CHARACTERS or not re.match(_USABLE_NUMBER, text):
            return "is out of range"
        if self is FieldKind.WHOLE:
            value = Fraction(text.strip(" "))
            if value.denominator != 1:
                return f"is not {self.value}"
            if not -(2**63) <= value < 2**63:
                return "is out of range"
        return None

    def _is_right(self, text: str) -> bool:
        if self is FieldKind.BOOLEAN:
            return text.isascii() and text.lower() in ("true", "false")
        if self is FieldKind.ISO_DURATION:
            return iso_seconds(text) is not None
        return clock_seconds(text) is not None


_USUAL = {
    # Of 400 bytes at most, which the reader checks beside it.
    FieldKind.NUMBER: _USABLE_NUMBER,
    FieldKind.WHOLE: _PLAIN_WHOLE,
    FieldKind.BOOLEAN: r"^(?:[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$",
    FieldKind.ISO_DURATION: r"^P(?:[0-9]{1,9}D)?T(?:[0-9]{1,9}H[0-9]{1,9}M|[0-9]{1,9}[HM])$",
    FieldKind.CLOCK_DURATION: r"^[0-9]{1,9}:[0-5][0-9]:[0-5][0-9]$",
}


def iso_seconds(text: str) -> Fraction | None:
    """The seconds of an ISO 8601 duration; years and months have no fixed number of them."""
    found = _ISO_DURATION.fullmatch(text)
    if found is None or text.endswith(("P", "T")):
        return None
    weeks, days, hours, minutes, seconds, part = (group or "0" for group in found.groups())
    whole = int(weeks) * _WEEK + int(days) * _DAY + int(hours) * _HOUR + int(minutes) * _MINUTE
    return whole + Fraction(f"{seconds}.{part}")


def clock_seconds(text: str) -> Fraction | None:
    """The seconds of `[N days, ]H:MM:SS`."""
    found = _CLOCK_DURATION.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds, part = (group or "0" for group in found.groups())
    whole = int(days) * _DAY + int(hours) * _HOUR + int(minutes) * _MINUTE
    return whole + Fraction(f"{seconds}.{part}")


class ColumnType(Enum):
    """How a column of an answer is kept, sorted and written."""

    TEXT = "TEXT"
    INTEGER = "INTEGER"
    REAL = "REAL"
    #: Kept and written as a JSON array; native in json and parquet files.
    LIST = "LIST"
    #: A number, kept and written as the text that came in; native in json and parquet files.
    DECIMAL = "DECIMAL"
    #: An ISO 8601 duration, kept and written as the text that came in.
    DURATION = "DURATION"

    @property
    def sql(self) -> str:
        return self.value if self in (ColumnType.INTEGER, ColumnType.REAL) else "TEXT"

    @property
    def by_value(self) -> bool:
        """Whether it is sorted by another value than the one that is kept."""
        return self in (ColumnType.DECIMAL, ColumnType.DURATION)

    def sort_key(self, text: str | None) -> bytes | None:
        """Bytes that are in the order of the values that the texts stand for."""
        if not text:
            return None
        if self is ColumnType.DURATION:
            seconds = iso_seconds(text)
            assert seconds is not None, f"no duration: {text}"
            return sort_key(seconds)
        return _plain_key(text) or sort_key(Fraction(text.strip(" ")))


def _plain_key(text: str) -> bytes | None:
    """`sort_key` of a text such as `537.10`, which nearly all are; None for others."""
    whole, _, part = text.partition(".")
    digits = whole + part
    if not digits.isdecimal() or not digits.isascii() or whole.startswith("0") or not whole:
        return None
    return b"\x02" + (len(whole) + 0x8000).to_bytes(2) + digits.rstrip("0").encode()


def sort_key(value: Fraction) -> bytes:
    """Bytes that are in the order of the values; for values with a finite decimal expansion."""
    if value == 0:
        return b"\x01"
    digits, exponent = _decimal(abs(value))
    if value > 0:
        return b"\x02" + (exponent + 0x8000).to_bytes(2) + digits.encode()
    # The larger its size, the smaller the number; a shorter row of digits is the larger number.
    mirrored = bytes(105 - digit for digit in digits.encode())
    return b"\x00" + (0x8000 - exponent).to_bytes(2) + mirrored + b"\xff"


def _decimal(value: Fraction) -> tuple[str, int]:
    """Digits d and exponent e such that the value is 0.d times ten to the e."""
    twos = (value.denominator & -value.denominator).bit_length() - 1
    fives, rest = 0, value.denominator >> twos
    while rest > 1:
        rest, left = divmod(rest, 5)
        assert not left, f"{value} has no finite decimal expansion"
        fives += 1
    places = max(twos, fives)
    digits = str(value.numerator * 10**places // value.denominator)
    return digits.rstrip("0"), len(digits) - places
