"""Read one batch of CSV records into columns, and name the rows that cannot be read.

The grammar decides what a record is. polars only splits records that the grammar has found
to be plain, or that were rewritten to be; so the rows never depend on how a file was cut.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import polars as pl

from booksan.errors import MessageError
from booksan.stages.kinds import MAX_CHARACTERS, FieldKind
from booksan_common.cutter import BATCH_LINES
from booksan_common.grammar import MAX_RECORD, Grammar, content_end, grammar

NUL = "contains a NUL byte"
NOT_UTF8 = "not UTF-8"
NO_KINDS: Mapping[str, FieldKind] = MappingProxyType({})

#: Records of a batch that are taken one by one, or whose values are odd: each costs far more
#: than the bytes that it has. Our own client sends a quarter of that at most.
MAX_ODD = 4 * BATCH_LINES

_BOM = b"\xef\xbb\xbf"
#: One unreadable record costs the fast way for so many bytes.
_PIECE_BYTES = 8 * 1024
_SHOWN_CHARACTERS = 40


class Parsed(NamedTuple):
    """The readable rows of a batch, the number of its records, and the rejected ones.

    `frame` has the needed columns as text and `row`, the index of the record in the batch.
    `rejected` holds (index, reason) in ascending order.
    """

    frame: pl.DataFrame
    records: int
    rejected: list[tuple[int, str]]


def parse(
    data: bytes,
    header: Sequence[str],
    needed: Sequence[str],
    kinds: Mapping[str, FieldKind] = NO_KINDS,
    delimiter: bytes = b",",
    *,
    lacking: str = "",
    limit: int = MAX_RECORD,
) -> Parsed:
    """Read the records of a batch; `header` names all columns, `kinds` those that are no text.

    A field that is `lacking` is read as an empty one.
    """
    rules = grammar(delimiter)
    columns = {name: header.index(name) for name in needed}
    rejected: dict[int, str] = {}
    if _is_plain(data, len(header), rules, limit):
        frame = _read(data, len(header), columns, delimiter)
    else:
        sorter = _Sorter(len(header), rules)
        sorter.sort_out(data, limit)
        rejected = sorter.rejected
        frame = _read(b"".join(sorter.plain), max(len(header), 2), columns, delimiter)
        frame = frame.with_columns(pl.Series("row", sorter.rows, pl.UInt32))
    count = frame.height + len(rejected)
    if lacking:
        texts = pl.col(*needed)
        frame = frame.with_columns(texts.replace(lacking, ""))
    wrong = _wrong_fields(frame, {name: kinds[name] for name in needed if name in kinds})
    if wrong:
        frame = frame.filter(~pl.col("row").is_in(list(wrong)))
    return Parsed(frame, count, sorted((rejected | wrong).items()))


def _is_plain(data: bytes, width: int, rules: Grammar, limit: int) -> bool:
    """Whether polars reads the very records of the grammar here, none of them unreadable."""
    return width > 1 and len(data) <= limit and _plain_rows(data, width, rules) > 0


def _plain_rows(data: bytes, width: int, rules: Grammar) -> int:
    return 0 if _content_error(data) else rules.table_rows(data, width)


class _Sorter:
    """Readable records as plain CSV, with the index of each, and the unreadable ones."""

    def __init__(self, width: int, rules: Grammar) -> None:
        self._width = width
        self._rules = rules
        self._index = 0
        self._odd = 0
        self.plain: list[bytes] = []
        self.rows: list[int] = []
        self.rejected: dict[int, str] = {}

    def sort_out(self, data: bytes, limit: int) -> None:
        """Take the records in small pieces, and those of a piece that is not plain one by one."""
        start = 0
        while start < len(data):
            piece = data[start : start + min(_PIECE_BYTES, limit)]
            piece = piece[: self._rules.plain_run(piece)]
            count = _plain_rows(piece, self._width, self._rules) if self._width > 1 else 0
            if count:
                self._keep(piece, count)
                start += len(piece)
            else:
                start = self._one_by_one(data, start, start + _PIECE_BYTES, limit)

    def _one_by_one(self, data: bytes, start: int, stop: int, limit: int) -> int:
        stop = min(stop, len(data))
        start = self._rules.skip_blank_lines(data, start)
        while start < stop:
            end, error = self._rules.next_record(data, start, limit)
            self._record(data[start : content_end(data, start, end)], error)
            start = self._rules.skip_blank_lines(data, end)
        return start

    def _record(self, record: bytes, error: str | None) -> None:
        self._odd += 1
        if self._odd > MAX_ODD:
            raise _too_odd()
        reason = error or _content_error(record)
        values = [] if reason else self._rules.fields(record)
        if not reason and len(values) == self._width:
            # A second column keeps an empty only field from being a blank line.
            line = self._rules.join(values if self._width > 1 else [*values, b""])
            self._keep(line, 1)
        else:
            self.rejected[self._index] = reason or _wrong_width(len(values), self._width)
            self._index += 1

    def _keep(self, plain: bytes, count: int) -> None:
        self.plain.append(plain)
        self.rows.extend(range(self._index, self._index + count))
        self._index += count


def _content_error(data: bytes) -> str | None:
    if b"\0" in data:
        return NUL
    try:
        data.decode()
    except UnicodeDecodeError:
        return NOT_UTF8
    return None


def _wrong_width(found: int, width: int) -> str:
    return f"{found} field{'' if found == 1 else 's'} instead of {width}"


def _read(data: bytes, width: int, columns: dict[str, int], delimiter: bytes) -> pl.DataFrame:
    """The columns at these places of plain CSV, all of them text, and the rows numbered."""
    if not data:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String) | {"row": pl.UInt32})
    # polars drops a byte order mark; the header had its own, so here one is data.
    bom = _BOM if data.startswith(_BOM) else b""
    frame = pl.read_csv(
        bom + data,
        has_header=False,
        schema={str(place): pl.String for place in range(width)},
        columns=sorted(columns.values()),
        separator=delimiter.decode(),
    )
    return frame.select(
        *(pl.col(str(place)).fill_null("").alias(name) for name, place in columns.items()),
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"),
    )


def _wrong_fields(frame: pl.DataFrame, kinds: Mapping[str, FieldKind]) -> dict[int, str]:
    """The rows in which one of these columns is neither empty nor of its kind."""
    wrong: dict[int, str] = {}
    for name, kind in kinds.items():
        text = pl.col(name)
        usual = text.str.contains(kind.usual) & (text.str.len_bytes() <= MAX_CHARACTERS)
        odd = frame.filter((text != "") & ~usual).select("row", name)
        if odd.height > MAX_ODD:
            raise _too_odd()
        for row, value in odd.iter_rows():
            fault = kind.fault(value)
            if fault is not None:
                wrong.setdefault(row, f"{name} {fault}: {_shown(value)}")
    return wrong


def _too_odd() -> MessageError:
    return MessageError(f"over {MAX_ODD} records of the batch are not plain: send smaller batches")


def _shown(value: str) -> str:
    if len(value) <= _SHOWN_CHARACTERS:
        return repr(value)
    return repr(value[: _SHOWN_CHARACTERS - 3] + "...")
