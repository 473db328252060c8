"""Bodies are taken whole or refused, whatever the pieces they come in."""

import asyncio
import gzip
import zlib
from collections.abc import Callable, Iterable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from booksan.gateway.bodies import DECODERS, MAX_PARTS, Incoming, read_body
from booksan.gateway.clients import read_shape
from booksan.gateway.errors import Problem
from booksan_common.shapes import Creation, End

LIMIT = 1000
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def request(pieces: Iterable[bytes], headers: dict[str, str]) -> Request:
    parts = iter([*pieces, b""])

    async def receive() -> Message:
        part = next(parts, None)
        assert part is not None, "read beyond the end"
        return {"type": "http.request", "body": part, "more_body": part != b""}

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "PUT", "headers": raw}, receive)


def read(pieces: Iterable[bytes], encoding: str = "", seconds: float = 60) -> bytes:
    headers = {"Content-Encoding": encoding} if encoding else {}
    return asyncio.run(read_body(request(pieces, headers), LIMIT, seconds))


def refusal(pieces: Iterable[bytes], encoding: str = "", seconds: float = 60) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        read(pieces, encoding, seconds)
    return caught.value.status, caught.value.code


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@settings(deadline=None, max_examples=60)
@given(
    data=st.binary(max_size=LIMIT),
    size=st.integers(1, 300),
    encoding=st.sampled_from(sorted(PACKERS)),
)
def test_a_body_comes_out_as_it_went_in(data: bytes, size: int, encoding: str) -> None:
    assert read(cut(PACKERS[encoding](data), size), encoding) == data


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_several_compressed_parts_are_one_body(encoding: str, size: int) -> None:
    data = PACKERS[encoding](b"one,") + PACKERS[encoding](b"") + PACKERS[encoding](b"two")
    assert read(cut(data, size), encoding) == b"one,two"


@pytest.mark.parametrize("encoding", sorted(PACKERS))
def test_the_limit_is_exact_and_holds_after_decompression(encoding: str) -> None:
    pack = PACKERS[encoding]
    assert read([pack(b"x" * LIMIT)], encoding) == b"x" * LIMIT
    assert refusal([pack(b"x" * (LIMIT + 1))], encoding) == (413, "too_large")
    assert refusal([pack(b"x" * 10_000_000)], encoding) == (413, "too_large")
    assert refusal([pack(b"x" * LIMIT), pack(b"x")], encoding) == (413, "too_large")


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_what_is_broken_or_cut_short_is_refused(encoding: str) -> None:
    packed = PACKERS[encoding](b"some text, and some more of it")
    for broken in (b"", packed[:-1], b"x" + packed, packed + b"x", zlib.compress(b"x")):
        assert refusal(cut(broken, 5), encoding) == (400, "broken_compression")


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_work_for_nothing_is_refused(encoding: str) -> None:
    nothing = PACKERS[encoding](b"")
    assert refusal([nothing] * LIMIT, encoding) == (413, "too_large")
    with pytest.raises(Problem, match="parts"):
        DECODERS[encoding]().feed(nothing * (MAX_PARTS + 1), LIMIT)


def test_an_unknown_encoding_is_refused_before_anything_is_read() -> None:
    assert refusal([b"x"], "br") == (415, "unknown_encoding")
    assert refusal([b"x"], "gzip, gzip") == (415, "unknown_encoding")


def test_an_announced_length_is_refused_before_anything_is_read() -> None:
    with pytest.raises(Problem) as caught:
        asyncio.run(read_body(request([], {"Content-Length": "9" * 400}), LIMIT, 60))
    assert caught.value.status == 413


def test_a_body_that_does_not_come_in_time_is_refused() -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    slow = Request({"type": "http", "method": "PUT", "headers": []}, receive)
    with pytest.raises(Problem) as caught:
        asyncio.run(read_body(slow, LIMIT, 0.01))
    assert (caught.value.status, caught.value.code) == (408, "too_slow")


def test_what_is_left_of_a_refused_body_is_dropped() -> None:
    async def drop(headers: dict[str, str]) -> bool:
        asked = request([b"x" * 100] * 3, headers)
        return await Incoming(asked.receive, asked.headers).drop()

    assert asyncio.run(drop({"Content-Length": "300"}))
    assert asyncio.run(drop({"Transfer-Encoding": "chunked"}))
    assert asyncio.run(drop({}))
    # One who waits for leave to send gets an answer instead of it.
    assert not asyncio.run(drop({"Content-Length": "300", "Expect": "100-continue"}))


@pytest.mark.parametrize(
    ("shape", "body", "status", "words"),
    [
        (End, b"{", 400, "the body is not JSON"),
        (End, b"[" * 100_000, 400, "the body is not JSON"),
        (End, b"[]", 400, "the body: it must be an object, not []"),
        (End, b"{}", 400, "the body: batches: must be a whole number .*; it is missing"),
        (End, b'{"batches": true}', 400, "batches: must be a whole number .*, not True"),
        (End, b'{"batches": -1}', 422, "batches: must be a whole number from 0 to .*, not -1"),
        (End, b'{"batches": 1000000001}', 422, "not 1000000001"),
        (End, b'{"batches": 1, "b\\ud800": 1}', 400, "b : there is no such key; known: batches"),
        (Creation, b'{"id": "a", "dataset": "b"}', 400, "columns: must be .*; it is missing"),
        (
            Creation,
            b'{"id": "a", "dataset": "b", "columns": {"c": [1]}}',
            400,
            "columns.c: must be a list of names, or the header line as text, not [1]",
        ),
        (
            Creation,
            b'{"id": "a", "dataset": "b", "columns": {}, "params": {"p.q": null}}',
            422,
            "params.p.q: must be a number or text, not None",
        ),
    ],
)
def test_a_body_that_is_not_as_declared_is_refused_with_its_key(
    shape: type[Creation | End], body: bytes, status: int, words: str
) -> None:
    with pytest.raises(Problem, match=words.replace("[", r"\[")) as caught:
        read_shape(shape, body)
    assert caught.value.status == status
    str(caught.value).encode()
