"""What is sent is what arrives; anything else is refused with a MessageError."""

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan.errors import MessageError
from booksan.messages import (
    MAX_MESSAGE,
    Control,
    Kind,
    Message,
    control_message,
    decode,
    digest_of,
    encode,
    end_message,
    to_body,
    to_frame,
)
from tests.unit.test_spec import make_spec, specs

PREFIX = struct.Struct("<4sBIII")
words = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), max_size=8)
plain = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
numbered = st.builds(
    Message,
    spec=specs,
    sender=st.builds("{}/{}".format, words, words),
    kind=st.sampled_from([Kind.BATCH, Kind.END]),
    seq=st.integers(0, 2**63 - 1),
    digest=st.text(min_size=1, max_size=32),
    data=st.dictionaries(st.text(max_size=5), plain, max_size=3),
    body=st.binary(max_size=64),
)
controls = st.builds(
    lambda spec, control, reason: control_message(spec, "q3-join/1", control, reason=reason),
    specs,
    st.sampled_from(Control),
    st.text(max_size=20),
)


def raw(header: bytes, body: bytes = b"") -> bytes:
    """A message whose frame is right, whatever it holds."""
    checksum = zlib.crc32(header + body)
    return PREFIX.pack(b"bksn", 1, len(header), len(body), checksum) + header + body


def fields(**changes: object) -> dict[str, object]:
    usual: dict[str, object] = {
        "kind": "batch",
        "sender": "gateway/books",
        "seq": 3,
        "digest": "d",
        "data": {},
        "spec": make_spec().json,
    }
    return usual | changes


def sample() -> Message:
    body = to_body(pl.DataFrame({"title": ["Dune"], "year": [1965]}))
    return Message(make_spec(), "gateway/books", Kind.BATCH, 7, "digest", {"rows": 1}, body)


@settings(deadline=None, max_examples=150)
@given(message=numbered | controls)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    data = encode(message)
    assert decode(data) == message
    assert encode(decode(data)) == data


def test_every_truncation_is_refused() -> None:
    data = encode(sample())
    for length in range(len(data)):
        with pytest.raises(MessageError):
            decode(data[:length])


def test_bytes_too_many_are_refused() -> None:
    data = encode(sample())
    for more in (b"\0", b" ", b"x" * 100, data):
        with pytest.raises(MessageError):
            decode(data + more)


def test_every_flipped_byte_is_refused() -> None:
    data = bytearray(encode(sample()))
    for place in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            data[place] ^= mask
            with pytest.raises(MessageError):
                decode(bytes(data))
            data[place] ^= mask
    assert decode(bytes(data)) == sample()


def test_lengths_that_only_fit_in_sum_are_refused() -> None:
    data = encode(sample())
    magic, version, header, body, checksum = PREFIX.unpack_from(data)
    for shift in (-1, 1, -header, body):
        prefix = PREFIX.pack(magic, version, header + shift, body - shift, checksum)
        with pytest.raises(MessageError):
            decode(prefix + data[PREFIX.size :])


def test_lengths_that_leave_bytes_over_are_refused() -> None:
    """Also when the checksum covers them."""
    data = raw(json.dumps(fields()).encode(), b"body")
    magic, version, header, body, checksum = PREFIX.unpack_from(data)
    assert decode(data).body == b"body"
    for shorter in range(1, body + 1):
        prefix = PREFIX.pack(magic, version, header, body - shorter, checksum)
        with pytest.raises(MessageError):
            decode(prefix + data[PREFIX.size :])


def test_another_magic_or_version_is_named() -> None:
    data = encode(sample())
    with pytest.raises(MessageError, match="not a message of booksan"):
        decode(b"BKSN" + data[4:])
    with pytest.raises(MessageError, match="message version 2"):
        decode(data[:4] + b"\2" + data[5:])


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=200))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        decode(data)
    with pytest.raises(MessageError):
        decode(raw(data))


def test_a_message_may_have_8_mib_and_not_a_byte_more() -> None:
    room = MAX_MESSAGE - len(encode(Message(make_spec(), "a/0", Kind.BATCH, 0, "d")))
    largest = Message(make_spec(), "a/0", Kind.BATCH, 0, "d", body=bytes(room))
    data = encode(largest)
    assert len(data) == MAX_MESSAGE == 8 * 1024 * 1024
    assert decode(data) == largest
    with pytest.raises(MessageError, match="send smaller batches"):
        encode(Message(make_spec(), "a/0", Kind.BATCH, 0, "d", body=bytes(room + 1)))
    with pytest.raises(MessageError, match="at most"):
        decode(raw(data[PREFIX.size :] + b"x"))


@pytest.mark.parametrize(
    "header",
    [b"", b"{", b"{}", b"null", b"7", b'"kind"', b"[]", b"[1, 2]", b"\xff\xfe", b"{}{}", b"NaN"],
)
def test_a_header_that_is_no_json_object_is_refused(header: bytes) -> None:
    with pytest.raises(MessageError, match="malformed header"):
        decode(raw(header))


@pytest.mark.parametrize("name", fields())
def test_a_missing_field_is_refused(name: str) -> None:
    found = fields()
    del found[name]
    with pytest.raises(MessageError, match="malformed header"):
        decode(raw(json.dumps(found).encode()))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "unknown"},
        {"kind": None},
        {"kind": ["batch"]},
        {"sender": "gateway"},
        {"sender": "a/b/c"},
        {"sender": 5},
        {"sender": None},
        {"seq": -1},
        {"seq": "3"},
        {"seq": 3.0},
        {"seq": True},
        {"seq": None},
        {"digest": ""},
        {"digest": 5},
        {"digest": None},
        {"data": None},
        {"data": []},
        {"data": "rows"},
        {"spec": None},
        {"spec": 5},
        {"spec": {}},
        {"spec": []},
        {"spec": ""},
        {"spec": "{}"},
        {"kind": "control"},
        {"kind": "control", "data": {"control": "unknown"}},
        {"kind": "control", "data": {"control": None}},
        {"kind": "control", "data": {"control": 5}},
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(change: Mapping[str, object]) -> None:
    assert decode(raw(json.dumps(fields()).encode())).seq == 3
    with pytest.raises(MessageError):
        decode(raw(json.dumps(fields(**change)).encode()))


def test_the_input_is_the_source_or_the_stage() -> None:
    spec = make_spec()
    assert Message(spec, "gateway/books", Kind.BATCH, 0, "d").input == "books"
    assert Message(spec, "q3-join/12", Kind.BATCH, 0, "d").input == "q3-join"


def test_only_control_messages_have_a_control() -> None:
    spec = make_spec()
    assert control_message(spec, "q3-join/0", Control.FAILED, reason="x").control is Control.FAILED
    assert end_message(spec, "q3-join/0", 3).control is None
    assert Message(spec, "a/0", Kind.BATCH, 0, "d", {"control": "gone"}).control is None


def test_the_digest_of_known_parts_never_changes() -> None:
    assert digest_of("a", b"b", 3) == "715da4dff2721cee0d5be277f7066154"


def test_parts_of_a_digest_cannot_run_into_each_other() -> None:
    groups: list[tuple[str | bytes | int, ...]] = [
        (), ("",), ("", ""), ("ab",), ("a", "b"), ("", "ab"), ("ab", ""), ("b", "a"), (1, 23),
        (12, 3), (123,),
    ]  # fmt: skip
    assert len({digest_of(*parts) for parts in groups}) == len(groups)


def test_the_same_end_and_the_same_control_have_the_same_bytes() -> None:
    def both(**data: Any) -> tuple[bytes, bytes]:
        end = end_message(make_spec(), "q3-join/0", 3)
        return encode(end), encode(control_message(make_spec(), "a/0", Control.FAILED, **data))

    assert both(reason="x", code=1) == both(reason="x", code=1)
    assert both(reason="x")[1] != both(reason="y")[1]


def test_digests_cover_the_spec() -> None:
    one, other = make_spec(), make_spec(shards={**make_spec().shards, "q3-join": 4})
    assert end_message(one, "a/0", 3).digest != end_message(other, "a/0", 3).digest
    gone = [control_message(spec, "a/0", Control.GONE).digest for spec in (one, other)]
    assert gone[0] != gone[1]


def test_a_frame_comes_back_from_a_body_as_it_went() -> None:
    frame = pl.DataFrame(
        {
            "title": ["Dune", "", "源氏物語\r\n\"',"],
            "row": pl.Series([0, 1, 2**32 - 1], dtype=pl.UInt32),
            "year": [1965, None, -1],
            "mean": [0.0, -0.1, 1e-300],
            "wanted": [True, False, None],
            "authors": [["a", "b, Jr."], [], None],
        }
    )
    again = to_frame(to_body(frame))
    assert again.equals(frame)
    assert again.schema == frame.schema
    assert to_body(frame) == to_body(frame.clone())


def test_pitfall_an_empty_batch_is_a_batch_and_keeps_its_columns() -> None:
    empty = pl.DataFrame(schema={"title": pl.String, "year": pl.Int32})
    message = Message(make_spec(), "gateway/books", Kind.BATCH, 0, "d", body=to_body(empty))
    again = decode(encode(message))
    assert again.kind is Kind.BATCH
    assert to_frame(again.body).schema == empty.schema
    assert to_frame(again.body).height == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        b"title,year\nDune,1965\n",
        b"ARROW1\0\0" + bytes(64),
        b"\xff\xff\xff\xff" + bytes(4),
        b"\xff\xff\xff\xff\x10\0\0\0" + bytes(64),
        b"\xff" * 64,
        bytes(64),
        b"PAR1" + bytes(64),
    ],
)
def test_a_body_that_is_not_arrow_is_refused(body: bytes) -> None:
    with pytest.raises(MessageError, match="malformed body"):
        to_frame(body)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        json.dumps(fields(kind="control", data={"control": []})).encode(),
        json.dumps(
            fields(spec=make_spec().json.replace('"version":1', '"version":1e999'))
        ).encode(),
        json.dumps(fields(spec="[" * 100_000)).encode(),
    ],
    ids=["nested header", "control is a list", "endless version", "nested spec"],
)
def test_a_header_made_to_break_the_reader_is_refused(header: bytes) -> None:
    with pytest.raises(MessageError):
        decode(raw(header))
