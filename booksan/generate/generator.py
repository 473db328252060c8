"""What every generator is made of: chance, records, dirt, files; and which there are."""

import os
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from booksan.errors import UsageError
from booksan_common.names import nearest

# Random choices that are the same on every machine and Python version.
#
# Only `random()` is used: its sequence is fixed by the Mersenne Twister, while those of `choice`,
# `sample` and `shuffle` are not promised, and `gauss` and the like depend on the C library.

T = TypeVar("T")


class Chance:
    """A seeded stream of choices. Streams with other labels do not disturb each other."""

    def __init__(self, seed: int, label: str) -> None:
        digest = blake2b(f"{seed}/{label}".encode(), digest_size=16).digest()
        self.random = random.Random(int.from_bytes(digest, "big")).random

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def happens(self, share: float) -> bool:
        return self.random() < share

    def skewed(self, n: int) -> int:
        """A number below n, the lower the likelier: a Zipf-like long tail."""
        u = self.random()
        return int(u * u * u * n)

    def distinct(self, count: int, n: int) -> list[int]:
        """Up to `count` different numbers below n, in random order."""
        taken: dict[int, None] = {}
        while len(taken) < min(count, n):
            taken[self.below(n)] = None
        return list(taken)


def weighted(table: Iterable[tuple[T, int]]) -> list[T]:
    """Each item as often as its weight says, so that a plain pick follows the weights."""
    return [item for item, weight in table for _ in range(weight)]


class Quantiles:
    """A distribution given by some of its quantiles, straight in between."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._shares = [share for share, _ in points]
        self._values = [value for _, value in points]

    def at(self, u: float) -> float:
        i = min(bisect_right(self._shares, u), len(self._shares) - 1)
        low, high = self._shares[i - 1], self._shares[i]
        base = self._values[i - 1]
        return base + (self._values[i] - base) * (u - low) / (high - low)


# Rows become CSV records, records become a file that appears whole or not at all.

Row = list[str]
Progress = Callable[[int], None]

#: Records in one write: about a megabyte of reviews.
CHUNK = 1000


@dataclass(frozen=True)
class Style:
    """How a file separates its fields and ends its lines, and whether a BOM opens it."""

    delimiter: str = ","
    end: str = "\n"
    bom: bool = False


PLAIN = Style()


@dataclass(frozen=True)
class Written:
    """One generated file: its rows (bad ones included) and the row numbers of the bad ones."""

    path: Path
    rows: int
    bytes: int
    bad: Mapping[str, Sequence[int]] = field(default_factory=dict)


def quoted(value: str, delimiter: str = ",") -> str:
    """The value as a CSV field: in quotes where it has to be."""
    # csv.writer would do, but which fields it puts in quotes differs between Python versions.
    if '"' in value:
        return '"' + value.replace('"', '""') + '"'
    if delimiter in value or "\n" in value or "\r" in value:
        return f'"{value}"'
    return value


def line(row: Sequence[str], delimiter: str = ",") -> str:
    """The row as a CSV record without its line end."""
    text = delimiter.join(row)
    # Most rows need no quotes at all, and to look at the whole costs less than at each field.
    plain = text.count(delimiter) == len(row) - 1 and not _needs_quotes(text)
    return text if plain else delimiter.join([quoted(value, delimiter) for value in row])


def _needs_quotes(text: str) -> bool:
    return '"' in text or "\n" in text or "\r" in text


def records(rows: Iterable[Row], style: Style = PLAIN) -> Iterator[bytes]:
    delimiter, end = style.delimiter, style.end
    return (f"{line(row, delimiter)}{end}".encode() for row in rows)


def write(
    path: Path,
    header: Sequence[str],
    body: Iterator[bytes],
    progress: Progress | None,
    style: Style = PLAIN,
) -> Written:
    """Write the header and the records under a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    first = f"{line(header, style.delimiter)}{style.end}"
    try:
        rows, size = _write(temporary, f"\ufeff{first}" if style.bom else first, body, progress)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return Written(path, rows, size)


def _write(
    path: Path, header: str, body: Iterator[bytes], progress: Progress | None
) -> tuple[int, int]:
    rows = 0
    with path.open("wb") as file:
        size = file.write(header.encode())
        while chunk := list(islice(body, CHUNK)):
            size += file.write(b"".join(chunk))
            rows += len(chunk)
            if progress is not None:
                progress(len(chunk))
    return rows, size


# Records that no reader may accept, put between good ones, and harmless oddities around them.
#
# A bad record is made from the good row after it, so that a reader who takes it changes an answer.

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


# What every data set's generator offers, and what they all share.


@dataclass(frozen=True)
class Generated:
    """The two files that were written, in the order of the sources."""

    first: Written
    second: Written

    @property
    def written(self) -> tuple[Written, Written]:
        return self.first, self.second

    @property
    def paths(self) -> tuple[Path, Path]:
        return self.first.path, self.second.path

    @property
    def rows(self) -> int:
        return self.first.rows + self.second.rows

    @property
    def bytes(self) -> int:
        return self.first.bytes + self.second.bytes


class Files:
    """The directory of a data set's files, which are written one after the other."""

    def __init__(
        self, out: Path, numbers: Sequence[int], seed: int, dirty: bool, progress: Progress | None
    ) -> None:
        """Makes the directory, unless one of the numbers of rows is none."""
        if min(numbers) < 0:
            wanted = " and ".join(map(str, numbers))
            raise UsageError(f"cannot make {wanted} rows: use numbers from 0 on")
        out.mkdir(parents=True, exist_ok=True)
        self._out = out
        self.seed = seed
        self._dirty = dirty
        self._progress = progress

    def write(
        self,
        name: str,
        columns: tuple[str, ...],
        rows: Iterable[Row],
        total: int,
        dirt: Callable[[Chance], Dirt],
        label: str,
        style: Style = PLAIN,
    ) -> Written:
        """Writes the rows, of which there are `total`; in a dirty file with bad records between.

        `label` sets the chance of the bad ones apart from all others.
        """
        path = self._out / name
        if not self._dirty:
            return write(path, columns, records(rows, style), self._progress, style)
        stains = dirt(Chance(self.seed, label))
        written = write(path, columns, stains.records(rows, total), self._progress, style)
        return replace(written, bad=stains.bad)


@dataclass(frozen=True)
class Generator:
    """How the files of one data set are made."""

    #: Their public names.
    files: tuple[str, str]
    #: What the rows are that `rows` counts.
    rows_help: str
    #: Rows of the first file that go with so many of the second.
    first_rows: Callable[[int], int]
    #: Writes both, with so many rows.
    make: Callable[..., Generated]
    #: Further names of the arguments `rows` and `first_rows` on the command line.
    options: Mapping[str, str] = field(default_factory=dict)

    def generate(
        self,
        out: Path,
        *,
        rows: int,
        seed: int,
        dirty: bool = False,
        progress: Progress | None = None,
        first_rows: int | None = None,
        **own: Any,
    ) -> Generated:
        """Writes both files into the directory `out`.

        The second one gets `rows` rows, and the first one as many as go with them, or `first_rows`.
        A dirty file holds the rows of the clean one, and bad records between them. Now and then
        `progress` is called with the number of rows written since the last call. `own` is for this
        data set alone.
        """
        first = self.first_rows(rows) if first_rows is None else first_rows
        return self.make(Files(out, (first, rows), seed, dirty, progress), first, rows, **own)


# The data sets that can be made, each loaded when it is asked for.

#: Each is a module beside this one that offers its `GENERATOR`.
NAMES = ("books", "flights", "aoe2", "steam")


class Generators(Mapping[str, Generator]):
    """All generators by name. A module is imported when its generator is looked up."""

    def __getitem__(self, name: str) -> Generator:
        if name not in NAMES:
            raise KeyError(name)
        found = import_module(f"booksan.generate.{name}").GENERATOR
        assert isinstance(found, Generator)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


GENERATORS = Generators()


def generator_named(name: str) -> Generator:
    """The generator of the data set, or an error that names those there are."""
    try:
        return GENERATORS[name]
    except KeyError:
        raise UsageError(
            f"there is no data set {name!r} to generate; {nearest(name, NAMES)}"
        ) from None
