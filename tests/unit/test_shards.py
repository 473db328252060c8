"""A key always belongs to the same shard: in every process, on every machine, in every version."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan.shards import shard_of

#: key -> crc32 of its UTF-8 bytes, as the standard has it; these may never change.
KNOWN = {
    "": 0x00000000,
    "a": 0xE8B7BE43,
    "123456789": 0xCBF43926,
    "The quick brown fox jumps over the lazy dog": 0x414FA339,
    "Kay Römer": 2198753233,
    "Война и мир": 1562111464,
    "源氏物語": 571260474,
    "Harry Potter and the Chamber of Secrets": 1609055153,
}


@pytest.mark.parametrize(("key", "value"), KNOWN.items())
def test_the_shard_of_a_known_key_never_changes(key: str, value: int) -> None:
    for shards in (1, 2, 3, 7, 64, 2**32):
        assert shard_of(key, shards) == value % shards


@settings(deadline=None, max_examples=50)
@given(key=st.text(), shards=st.integers(1, 100))
def test_every_key_has_a_shard_that_exists(key: str, shards: int) -> None:
    assert 0 <= shard_of(key, shards) < shards


def test_keys_are_not_trimmed_or_folded() -> None:
    many = 2**32
    assert len({shard_of(key, many) for key in ("Dune", "dune", " Dune", "Dune ", "DUNE")}) == 5


def test_keys_spread_over_all_shards() -> None:
    counts = [0] * 8
    for number in range(8000):
        counts[shard_of(f"Title {number}", 8)] += 1
    assert min(counts) > 800
    assert max(counts) < 1200
