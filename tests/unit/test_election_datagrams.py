"""What is forged, foreign, malformed or replayed is ignored; what is on disk survives."""

import hmac
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from booksan.errors import StateError, UsageError
from booksan.membership.member import Timing
from booksan.membership.messages import (
    LONGEST,
    SIZE,
    Codec,
    DatagramKind,
    Guard,
    Message,
    Stamp,
    Term,
)
from booksan.membership.socket import ELECTION_FILE, Memory

MESSAGE = Message(DatagramKind.AGREED, 1, Term(5, 2), 2**62 - 1, 3)
STAMP = Stamp(1_700_000_000_000, 9, 8)


@pytest.mark.parametrize("kind", DatagramKind)
def test_a_datagram_is_small_and_comes_back_as_it_was(kind: DatagramKind) -> None:
    message = MESSAGE._replace(kind=kind)
    data = Codec(1, (b"secret",)).encode(2, message, STAMP)
    assert len(data) == SIZE < 1000
    assert Codec(2, (b"secret",)).decode(data) == (message, STAMP)


def test_any_changed_byte_makes_a_datagram_void() -> None:
    data = Codec(1, (b"secret",)).encode(2, MESSAGE, STAMP)
    receiver = Codec(2, (b"secret",))
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        assert receiver.decode(bytes(changed)) is None


def test_what_is_for_others_or_of_others_is_void() -> None:
    data = Codec(1, (b"secret",)).encode(2, MESSAGE, STAMP)
    assert Codec(3, (b"secret",)).decode(data) is None
    assert Codec(2, (b"another cluster",)).decode(data) is None
    own = Codec(2, (b"secret",)).encode(2, MESSAGE._replace(sender=2), STAMP)
    assert Codec(2, (b"secret",)).decode(own) is None


def test_while_the_secret_is_changed_hosts_with_either_hear_each_other() -> None:
    old, first, second, new = (b"old",), (b"old", b"new"), (b"new", b"old"), (b"new",)
    # The steps that two hosts can be at together, when one is changed after the other.
    for one, other in [(old, first), (first, first), (first, second), (second, new)]:
        for mine, yours in [(one, other), (other, one)]:
            data = Codec(1, mine).encode(2, MESSAGE, STAMP)
            assert Codec(2, yours).decode(data) == (MESSAGE, STAMP)
    assert Codec(2, new).decode(Codec(1, old).encode(2, MESSAGE, STAMP)) is None
    assert Codec(2, second).decode(Codec(1, (b"third",)).encode(2, MESSAGE, STAMP)) is None


def later_version(version: int, more: bytes) -> bytes:
    """As a host of a later version would say it, with fields that nobody knows yet."""
    body = bytearray(Codec(1, (b"secret",)).encode(2, MESSAGE, STAMP)[:-32]) + more
    body[4] = version
    key = hmac.digest(b"secret", b"booksan election", "sha256")
    return bytes(body) + hmac.digest(key, bytes(body), "sha256")


def test_a_later_version_is_understood_as_far_as_it_is_known() -> None:
    receiver = Codec(2, (b"secret",))
    assert receiver.decode(later_version(1, b"")) == (MESSAGE, STAMP)
    assert receiver.decode(later_version(2, b"new field")) == (MESSAGE, STAMP)
    assert receiver.decode(later_version(128, b"")) is None
    assert receiver.decode(later_version(0, b"")) is None
    assert receiver.decode(later_version(2, bytes(LONGEST - SIZE + 1))) is None


def test_noise_is_void() -> None:
    rng = random.Random(1)
    receiver = Codec(2, (b"secret",))
    for length in [0, 1, SIZE - 1, SIZE, SIZE + 1, 1500] * 20:
        assert receiver.decode(rng.randbytes(length)) is None


def test_each_datagram_is_taken_once_in_any_order() -> None:
    rng = random.Random(2)
    sender, receiver = Guard(1), Guard(1)
    stamps = [sender.stamp(2) for _ in range(400)]
    # Overtaken by less than the window.
    order = sorted(stamps, key=lambda stamp: stamp.seq + rng.uniform(0, 100))
    assert all(receiver.admit(1, stamp) for stamp in order)
    assert not any(receiver.admit(1, stamp) for stamp in order)


def test_what_is_far_behind_is_refused() -> None:
    receiver = Guard(1)
    assert receiver.admit(1, Stamp(1, 1000, 0))
    assert not receiver.admit(1, Stamp(1, 1, 0))


def test_an_earlier_life_is_refused_and_a_later_one_begins_anew() -> None:
    receiver = Guard(1)
    assert receiver.admit(1, Stamp(5, 50, 0))
    assert not receiver.admit(1, Stamp(4, 99, 0))
    assert receiver.admit(1, Stamp(6, 1, 0))
    assert not receiver.admit(1, Stamp(5, 51, 0))


def test_only_who_knows_the_present_life_is_proven() -> None:
    one, other = Guard(5), Guard(8)
    first = one.stamp(2)
    assert other.admit(1, first)
    assert not other.proven(first)
    assert one.admit(2, other.stamp(1))
    assert other.proven(one.stamp(2))
    assert not Guard(9).proven(one.stamp(2))


def test_terms_and_lives_survive_and_grow(tmp_path: Path) -> None:
    first = Memory(tmp_path)
    assert first.term == Term(0, 0)
    first.persist(Term(7, 3))
    second = Memory(tmp_path)
    assert second.term == Term(7, 3)
    assert second.boot > first.boot
    assert [path.name for path in tmp_path.iterdir()] == [ELECTION_FILE]


def test_a_life_is_later_even_if_the_clock_went_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Memory(tmp_path)
    monkeypatch.setattr("booksan.membership.socket.time.time_ns", lambda: 0)
    assert Memory(tmp_path).boot == first.boot + 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"counter": 1}', '{"counter": "1", "host": 1, "boot": 1}']
)
def test_a_damaged_memory_is_told_and_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / ELECTION_FILE
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StateError, match=r"election\.json"):
        Memory(tmp_path)
    assert path.read_text(encoding="utf-8") == text


def test_a_term_is_synced_before_it_is_renamed_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(tmp_path)
    steps: list[str] = []
    fsync, rename = os.fsync, Path.replace

    def note_sync(fd: int) -> None:
        steps.append("directory" if Path(f"/proc/self/fd/{fd}").resolve() == tmp_path else "file")
        fsync(fd)

    def note_rename(source: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_rename)
    memory.persist(Term(1, 1))
    assert steps == ["file", "rename", "directory"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat": 0.0},
        {"answer": 0.4},
        {"coordinator": 1.0},
        {"handover": 2.0},
        {"suspicion": 2.6},
        {"lease": 3.0},
        {"retry": 0.6},
        {"misses": 9},
    ],
    ids=str,
)
def test_timings_that_break_a_promise_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="election timing"):
        replace(Timing(), **wrong)


def test_the_default_timings_meet_the_targets() -> None:
    timing = Timing()
    assert timing.suspicion + timing.answer + 2 * timing.message_bound <= 4.1
    assert timing.suspicion + timing.heartbeat <= 3.5
