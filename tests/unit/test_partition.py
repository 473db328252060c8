"""Every row goes to exactly one shard, every shard gets a message, and every message fits."""

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan import partition as module
from booksan.datasets import dataset_named
from booksan.messages import MAX_MESSAGE, Kind, Message, decode, encode, to_body, to_frame
from booksan.partition import MAX_BODY, bodies, body_digest, numbered_messages, partition
from booksan.shards import shard_of
from booksan.spec import Spec
from booksan.stages.dataset_errors import DataSetError
from booksan.stages.graph import Keyed
from tests.unit.test_spec import SHARDS, make_spec

BOOKS = dataset_named("books")

#: Those of the source `books`, without the home, which gets its counts in another message.
READERS = ("q1-filter", "q2-decades", "q3-join", "q5-sentiment")

keys = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=30)


def spec_with(shards: int) -> Spec:
    return make_spec(shards={**SHARDS, "q3-join": shards})


def frame_of(titles: list[str]) -> pl.DataFrame:
    schema = {"title": pl.String, "row": pl.UInt32}
    return pl.DataFrame(list(zip(titles, range(len(titles)), strict=True)), schema, orient="row")


@settings(deadline=None, max_examples=100)
@given(titles=keys, shards=st.integers(1, 6))
def test_every_row_goes_to_the_one_shard_of_its_key(titles: list[str], shards: int) -> None:
    keyed = Keyed(frame_of(titles), "title")
    parts = list(partition(BOOKS, spec_with(shards), "q3-join", keyed))
    assert [shard for shard, _ in parts] == list(range(shards))
    for shard, frame in parts:
        expected = [row for row in enumerate(titles) if shard_of(row[1], shards) == shard]
        assert [(row, title) for title, row in frame.rows()] == expected
        assert frame.schema == keyed.frame.schema


def test_pitfall_a_repeat_goes_to_the_same_shard_as_before() -> None:
    """Round-robin with a cursor in memory would send it elsewhere after a crash."""
    keyed = Keyed(frame_of(["Dune", "Emma", "Dune", "It"]), "title")
    first, second = (
        [(shard, frame.rows()) for shard, frame in partition(BOOKS, spec_with(3), "q3-join", keyed)]
        for _ in range(2)
    )
    assert first == second


def test_rows_without_a_key_go_to_the_clients_shard() -> None:
    for number in range(12):
        spec = make_spec(f"client-{number}")
        frame = frame_of(["Dune", "Emma"])
        for key in (None, "title"):
            ((shard, found),) = partition(BOOKS, spec, "results", Keyed(frame, key))
            assert shard == spec.home
            assert found.equals(frame)


def test_pitfall_a_batch_without_rows_still_reaches_every_shard() -> None:
    """Numbers without gaps are what makes the end simple; an empty batch is no end."""
    spec = spec_with(3)
    output = {stage: Keyed(frame_of([]), "title") for stage in READERS}
    made = numbered_messages(BOOKS, spec, "gateway/books", 5, "digest", output)
    assert [queue for queue, _ in made] == [
        f"{stage}.{shard}" for stage in READERS for shard in range(spec.shards[stage])
    ]
    assert spec.shards["q3-join"] == 3
    for _, data in made:
        message = decode(data)
        assert (message.kind, message.seq, message.digest) == (Kind.BATCH, 5, "digest")
        assert (message.sender, message.spec) == ("gateway/books", spec)
        assert to_frame(message.body).schema == frame_of([]).schema
        assert to_frame(message.body).height == 0


def test_the_messages_of_a_batch_hold_all_of_its_rows_and_are_always_the_same() -> None:
    titles = [f"Title {number}" for number in range(100)]
    output = {stage: Keyed(frame_of([]), "title") for stage in READERS}
    output["q3-join"] = Keyed(frame_of(titles), "title")
    made = numbered_messages(BOOKS, spec_with(4), "gateway/books", 0, "d", output)
    found = [title for _, data in made for title in to_frame(decode(data).body)["title"]]
    assert sorted(found) == sorted(titles)
    assert made == numbered_messages(BOOKS, spec_with(4), "gateway/books", 0, "d", output)


def test_a_batch_that_forgets_a_reader_or_has_a_strange_one_is_refused() -> None:
    """Whoever is forgotten would wait for its number for ever."""
    output = {stage: Keyed(frame_of([]), "title") for stage in READERS}
    for changed in (output | {"q4-top": Keyed(frame_of([]))}, {"q3-join": output["q3-join"]}):
        with pytest.raises(DataSetError, match=r"books gave rows to .*, but is read by \['q1-filt"):
            numbered_messages(BOOKS, spec_with(1), "gateway/books", 0, "d", changed)


@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.integers(0, 400), max_size=12), limit=st.integers(500, 2000))
def test_bodies_hold_all_rows_in_order_within_the_limit(sizes: list[int], limit: int) -> None:
    chance = random.Random(1)
    frame = frame_of([chance.randbytes(size).hex() for size in sizes])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_BODY", limit)
        pieces = list(bodies(frame))
    found = [body for _, body in pieces]
    assert [rows for rows, _ in pieces] == [to_frame(body).height for body in found]
    frames = [to_frame(body) for body in found]
    assert [row for each in frames for row in each.rows()] == frame.rows()
    for body, each in zip(found, frames, strict=True):
        assert each.height > 0
        assert len(body) <= limit or each.height == 1
    assert len(found) == 1 or len(to_body(frame)) > limit or not sizes


def test_no_rows_make_no_body() -> None:
    assert list(bodies(frame_of([]))) == []


def test_small_frames_make_one_body() -> None:
    frame = frame_of(["Dune", "Emma"])
    ((rows, body),) = bodies(frame)
    assert rows == 2
    assert to_frame(body).equals(frame)


def test_output_over_the_limit_of_a_message_is_sent_in_several() -> None:
    chance = random.Random(1)
    frame = frame_of([chance.randbytes(1024 * 1024).hex() for _ in range(9)])
    assert len(to_body(frame)) > MAX_MESSAGE
    found = [body for _, body in bodies(frame)]
    assert len(found) > 1
    for body in found:
        assert len(body) <= MAX_BODY
        message = Message(make_spec(), "q3-join/0", Kind.BATCH, 0, "d", body=body)
        assert len(encode(message)) <= MAX_MESSAGE
    assert pl.concat([to_frame(body) for body in found]).equals(frame)


def test_a_digest_covers_everything_a_message_is_made_from() -> None:
    spec, other = make_spec(), make_spec(params={})
    digests = {
        body_digest(spec, "q3-join/0", 0, b"body"),
        body_digest(other, "q3-join/0", 0, b"body"),
        body_digest(spec, "q3-join/1", 0, b"body"),
        body_digest(spec, "q3-join/0", 1, b"body"),
        body_digest(spec, "q3-join/0", 0, b"other"),
    }
    assert len(digests) == 5
    assert body_digest(spec, "q3-join/0", 0, b"body") in digests
