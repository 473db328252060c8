"""The size of a body is known before it is read, and a bomb is not read at all."""

import io
import random
import struct
import tracemalloc
from contextlib import suppress
from typing import Literal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan import partition
from booksan.errors import MessageError
from booksan.messages import MAX_FRAME, MAX_MESSAGE, to_body, to_frame, unpacked_size
from booksan.partition import bodies

FRAME = pl.DataFrame(
    {
        "text": ["some words", "", None, "ä" * 500] * 50,
        "list": [["a", "b"], [], None, ["c"]] * 50,
        "whole": list(range(200)),
        "real": [0.5, None] * 100,
        "flag": [True, False] * 100,
        "kind": pl.Series(["x", "y"] * 100, dtype=pl.Categorical),
    }
)


Compression = Literal["uncompressed", "lz4", "zstd"]


def written(frame: pl.DataFrame, compression: Compression) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression=compression)
    return buffer.getvalue()


def bomb(rows: int = 300_000, cell: int = 2_000) -> bytes:
    """A small body of a very long column, made without taking the memory oneself."""
    frame = pl.DataFrame({"text": ["x" * (rows * cell)]})
    return to_body(frame)


@pytest.mark.parametrize("compression", ["lz4", "zstd", "uncompressed"])
def test_the_size_is_that_of_all_buffers_whatever_the_compression(compression: Compression) -> None:
    plain = unpacked_size(written(FRAME, "uncompressed"))
    size = unpacked_size(written(FRAME, compression))
    # Buffers that are not compressed are padded.
    assert 0.9 * plain <= size <= plain
    assert size >= FRAME.estimated_size()


@settings(deadline=None, max_examples=60)
@given(
    texts=st.lists(st.one_of(st.none(), st.text(max_size=300)), max_size=60),
    repeat=st.integers(1, 50),
)
def test_no_body_of_ours_is_larger_than_it_says(texts: list[str | None], repeat: int) -> None:
    frame = pl.DataFrame({"text": texts * repeat}, schema={"text": pl.String})
    body = to_body(frame)
    assert unpacked_size(body) >= frame.height
    assert to_frame(body).equals(frame)


def test_a_bomb_is_refused_before_it_takes_memory() -> None:
    body = bomb()
    assert len(body) < MAX_MESSAGE
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match=r"would become 6\d{8}; the limit is"):
            to_frame(body)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_length_that_was_written_by_hand_is_refused() -> None:
    body = bytearray(written(pl.DataFrame({"text": ["word " * 1000]}), "lz4"))
    length = struct.pack("<q", 5000)
    assert body.count(length) == 1
    place = body.index(length)
    for size in (2**40, 2**62, MAX_FRAME + 1):
        body[place : place + 8] = struct.pack("<q", size)
        with pytest.raises(MessageError, match="would become"):
            to_frame(bytes(body))
    body[place : place + 8] = struct.pack("<q", -5)
    with pytest.raises(MessageError, match="negative"):
        to_frame(bytes(body))


def test_rows_without_any_buffer_count_too() -> None:
    body = to_body(pl.DataFrame({"nothing": pl.Series([None] * 1_000_000, dtype=pl.Null)}))
    assert len(body) < 10_000
    assert unpacked_size(body) >= 1_000_000


def test_broken_bytes_are_a_malformed_body_and_nothing_else() -> None:
    chance = random.Random(1)
    body = to_body(FRAME)
    for _ in range(3_000):
        broken = bytearray(body)
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        with suppress(MessageError):
            assert unpacked_size(bytes(broken)) >= 0
    for end in range(0, len(body), 7):
        with suppress(MessageError):
            assert unpacked_size(body[:end]) <= unpacked_size(body)
    with pytest.raises(MessageError, match="malformed body: not a stream"):
        unpacked_size(b"something else entirely")


def test_final_output_is_cut_by_its_size_in_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "MAX_FRAME", 100_000)
    frame = pl.DataFrame({"text": ["x" * 1_000] * 1_000})
    found = list(bodies(frame))
    assert sum(rows for rows, _ in found) == 1_000
    assert all(unpacked_size(body) <= 100_000 for _, body in found)
    assert pl.concat([to_frame(body) for _, body in found]).equals(frame)
