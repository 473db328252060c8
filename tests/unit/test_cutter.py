"""Batches hold whole records, are the same on every run, and never need much memory."""

import gzip
import io
import os
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booksan_common.cutter import Batch, Cutter, Header, check_columns, open_source, read_header
from booksan_common.errors import InputError
from booksan_common.grammar import MAX_RECORD, OVER_LONG
from tests.unit.test_grammar import Expected, framed, limits, messy, reference, thorough

sizes = st.integers(1, 12) | st.just(2**21)


def cut(
    data: bytes,
    offset: int = 0,
    *,
    batch_bytes: int = 2**21,
    batch_lines: int = 2**16,
    limit: int = MAX_RECORD,
) -> list[Batch]:
    stream = io.BytesIO(data)
    stream.seek(offset)
    return list(
        Cutter(stream, offset, batch_bytes=batch_bytes, batch_lines=batch_lines, limit=limit)
    )


class DripStream(io.BytesIO):
    """A stream that gives three bytes at most, as a pipe may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3 if size is None or size < 0 else min(size, 3))


class LongLine(io.BytesIO):
    """Some first bytes, then a line of `chunks` times 64 KiB, then one short record."""

    def __init__(self, first: bytes, chunks: int) -> None:
        super().__init__()
        self._parts = [first, *[b"x" * 65536] * chunks, b"\nlast,1\n"]

    def read(self, _size: int | None = -1, /) -> bytes:
        return self._parts.pop(0) if self._parts else b""


@thorough
@given(data=messy, limit=limits, batch_bytes=sizes, batch_lines=sizes)
def test_batches_hold_the_records_of_the_file(
    data: bytes, limit: int, batch_bytes: int, batch_lines: int
) -> None:
    batches = cut(data, batch_bytes=batch_bytes, batch_lines=batch_lines, limit=limit)
    each = [record for batch in batches for record in framed(batch.data, limit)]
    assert each == reference(data, limit)
    assert framed(b"".join(batch.data for batch in batches), limit) == each


@thorough
@given(data=messy, limit=limits, batch_bytes=sizes, batch_lines=sizes)
def test_batches_follow_each_other_without_gaps(
    data: bytes, limit: int, batch_bytes: int, batch_lines: int
) -> None:
    batches = cut(data, batch_bytes=batch_bytes, batch_lines=batch_lines, limit=limit)
    ends = [0, *(batch.end for batch in batches)]
    assert [batch.start for batch in batches] == ends[:-1]
    assert reference(data[ends[-1] :]) == []
    assert all(batch.data.endswith(b"\n") for batch in batches[:-1])
    assert all(framed(batch.data, limit) for batch in batches)


@thorough
@given(data=messy, limit=limits, batch_bytes=sizes, batch_lines=sizes)
def test_a_restart_at_any_batch_gives_the_same_batches(
    data: bytes, limit: int, batch_bytes: int, batch_lines: int
) -> None:
    settings = {"batch_bytes": batch_bytes, "batch_lines": batch_lines, "limit": limit}
    batches = cut(data, **settings)
    for number, batch in enumerate(batches):
        assert cut(data, batch.start, **settings) == batches[number:]


@thorough
@given(data=messy, batch_bytes=sizes, limit=limits)
def test_short_reads_change_nothing(data: bytes, batch_bytes: int, limit: int) -> None:
    dripped = Cutter(DripStream(data), 0, batch_bytes=batch_bytes, limit=limit)
    assert list(dripped) == cut(data, batch_bytes=batch_bytes, limit=limit)


@thorough
@given(data=messy, batch_bytes=sizes, batch_lines=sizes)
def test_a_batch_keeps_to_its_size_unless_one_record_is_larger(
    data: bytes, batch_bytes: int, batch_lines: int
) -> None:
    for batch in cut(data, batch_bytes=batch_bytes, batch_lines=batch_lines):
        fits = len(batch.data) <= batch_bytes and batch.data.count(b"\n") <= batch_lines
        assert fits or len(reference(batch.data)) == 1


def test_batches_are_filled() -> None:
    data = b'1234,"6\n8"\n' * 1000
    assert [len(batch.data) for batch in cut(data, batch_bytes=5005)] == [5005, 5005, 990]
    assert [len(batch.data) for batch in cut(data, batch_lines=1200)] == [6600, 4400]


def test_an_over_long_record_is_cut_off_and_gets_a_batch_of_its_own() -> None:
    data = b'a\n"12345678\n,"\nb\n'
    assert cut(data, limit=5) == [
        Batch(0, 2, b"a\n"),
        Batch(2, 12, b'"123456\n'),
        Batch(12, 17, b',"\nb\n'),
    ]


def test_a_file_without_rows_gives_no_batches() -> None:
    assert cut(b"") == []
    assert cut(b"\n\r\n" * 1000, batch_bytes=10) == []


def test_the_last_record_needs_no_line_end() -> None:
    assert cut(b"a,b\nc,d") == [Batch(0, 7, b"a,b\nc,d")]


@pytest.mark.parametrize("first", [b"start,", b'a,"'])
def test_a_field_of_fifty_megabytes_takes_bounded_memory(first: bytes) -> None:
    chunks = 50_000_000 // 65536
    stream = LongLine(first, chunks)
    tracemalloc.start()
    try:
        batches = list(Cutter(stream, 0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    long, last = batches
    assert framed(long.data) == [Expected(None, OVER_LONG)]
    assert MAX_RECORD < len(long.data) < MAX_RECORD + 10
    assert long.end == len(first) + chunks * 65536 + 1
    assert last == Batch(long.end, long.end + 7, b"last,1\n")
    assert peak < 6 * MAX_RECORD


def test_the_header_is_the_first_record_that_is_not_blank() -> None:
    data = b'\xef\xbb\xbf\r\n\n"a ""1""",b\r\nrow\n'
    assert read_header(io.BytesIO(data)) == Header(('a "1"', "b"), data.index(b"row"))
    assert read_header(io.BytesIO(b"a;b"), b";") == Header(("a", "b"), 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"\xef\xbb\xbf\r\n\n", "empty"),
        (b"caf\xe9,b\n", "not UTF-8"),
        (b"PK\x03\x04\0\0\0\nabc", "zero bytes"),
        ("a,b\n".encode("utf-16"), "zero bytes"),
        (b'a,"b\n1,2\n', "never closed"),
        (b'a,"b"c\n1,2\n', "after a closing quote"),
        (b"x" * 100, "longer than 64 bytes"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_header(io.BytesIO(data), limit=64)


def test_errors_of_the_header_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.touch()
    with open_source(path) as stream, pytest.raises(InputError, match=r"empty\.csv"):
        read_header(stream)


def test_missing_and_doubled_columns_are_named() -> None:
    header = Header(("Title", "a", "a", *(f"c{n}" for n in range(50))), 0)
    check_columns(header, ["Title"], Path("f.csv"))
    with pytest.raises(InputError, match=r"f\.csv: missing column 'x', 'y'; found 'Title', 'a'"):
        check_columns(header, ["x", "Title", "y"], Path("f.csv"))
    with pytest.raises(InputError, match=r"f\.csv: column twice: 'a'; found .* and 41 more"):
        check_columns(header, ["Title", "a"], Path("f.csv"))


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.csv"])
def test_gzip_is_read_like_the_plain_file(tmp_path: Path, name: str) -> None:
    data = b"a,b\n" + b'1,"x\ny"\n' * 100_000
    path = tmp_path / name
    path.write_bytes(gzip.compress(data))
    with open_source(path) as stream:
        end = read_header(stream).end
        stream.seek(end)
        assert list(Cutter(stream, end)) == cut(data, end)


def test_plain_files_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,2\n")
    with open_source(path) as stream:
        assert stream.read() == b"a,b\n1,2\n"


def read_all(path: Path) -> list[Batch]:
    with open_source(path) as stream:
        return list(Cutter(stream, 0))


@pytest.mark.parametrize("damage", ["cut short", "checksum", "no such block"])
def test_broken_gzip_is_an_error_that_names_the_file(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(random.Random(7).randbytes(200_000)))
    if damage == "cut short":
        del packed[100_000:]
    elif damage == "checksum":
        packed[-8] ^= 0xFF
    else:
        packed[10] = 0xFF
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(packed)
    with pytest.raises(InputError, match=r"rows\.csv\.gz: the gzip data is broken"):
        read_all(path)


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read: No such file"):
        open_source(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a directory"):
        open_source(tmp_path)
    plain = tmp_path / "plain.gz"
    plain.write_bytes(b"a,b\n")
    with pytest.raises(InputError, match=r"plain\.gz: is named \.gz but holds no gzip data"):
        open_source(plain)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret.csv"
    path.touch(mode=0o000)
    with pytest.raises(InputError, match=r"secret\.csv: cannot be read: Permission denied"):
        open_source(path)
