"""What is told of a run in the middle of it: stages, gaps, failures, and where it stands still."""

import sqlite3
from pathlib import Path

import pytest

from booksan.datasets import dataset_named
from booksan.gateway.progress import STALLED_SECONDS, Gaps, Progress, stages_of, stalled_of
from booksan.spec import Spec
from booksan.state.client import ClientStore, database_path
from booksan.state.database import transaction
from booksan.state.readers import StreamProgress, failures, first_gaps, gap_ranges, progress
from booksan.state.shard import ShardStore
from booksan_common.shapes import StageStatus, Stream
from tests.support.data import PARAMS, shards

BOOKS = dataset_named("books")

NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("numbers", "top", "expected"),
    [
        ([], 0, []),
        ([], 3, [0, 1, 2]),
        ([0, 1, 2], 3, []),
        ([1, 3], 4, [0, 2]),
        ([0, 10**9], 10**9 + 1, list(range(1, 11))),
        ([5], 3, [0, 1, 2]),
        ([0], 10**12, list(range(1, 11))),
    ],
)
def test_the_first_gaps(numbers: list[int], top: int, expected: list[int]) -> None:
    assert first_gaps(numbers, top) == expected


@pytest.mark.parametrize(
    ("numbers", "top", "expected"),
    [
        ([], 0, []),
        ([], 3, [(0, 2)]),
        ([0, 1, 2], 3, []),
        ([1, 3], 6, [(0, 0), (2, 2), (4, 5)]),
        ([5], 3, [(0, 2)]),
        ([0, 10**9], 10**9 + 2, [(1, 10**9 - 1), (10**9 + 1, 10**9 + 1)]),
    ],
)
def test_all_gaps_as_ranges(numbers: list[int], top: int, expected: list[tuple[int, int]]) -> None:
    assert list(gap_ranges(numbers, top)) == expected


def spec(keyed: int = 2) -> Spec:
    return Spec("c1", "books", BOOKS.version, PARAMS, {}, shards(keyed), 2**40)


def stream(stage: str, shard: int, sender: str, batches: int, of: int | None) -> StreamProgress:
    return StreamProgress("c1", stage, shard, sender, batches, of, "taking", 7, 70, 0, NOW)


def test_a_stage_is_told_when_all_of_its_streams_are_known() -> None:
    some = [stream("q2-decades", 0, "gateway/books", 3, 5)]
    told = stages_of(spec(), some)["q2-decades"]
    assert told == StageStatus(2, 3, None, 7, 70, done=False, inputs=("books",))
    both = [*some, stream("q2-decades", 1, "gateway/books", 5, 5)]
    found = stages_of(spec(), both)["q2-decades"]
    assert (found.batches, found.of_batches, found.rows) == (8, 10, 14)


def test_a_stage_without_a_database_is_told_by_what_came_out_of_it() -> None:
    streams = [stream("results", 0, f"q1-filter/{shard}", 4, 4) for shard in range(2)]
    found = stages_of(spec(), streams)["q1-filter"]
    assert (found.batches, found.of_batches, found.done) == (8, 8, True)
    assert not stages_of(spec(), streams[:1])["q1-filter"].done


def test_a_run_in_which_nothing_moves_is_stalled_and_tells_where() -> None:
    streams = (
        stream("q3-join", 1, "gateway/books", 1, 3),
        stream("results", 0, "gateway/books", 1, 3),
        stream("results", 0, "q1-filter/0", 2, 2),
    )
    lacks = Gaps([(0, 0), (2, 2)], 3, STALLED_SECONDS)
    found = Progress(
        streams, (), {(each.stage, each.shard, each.sender): lacks for each in streams}
    )
    later = NOW + STALLED_SECONDS
    assert stalled_of(found, over=False, now=later - 1) is None
    assert stalled_of(found, over=True, now=later) is None
    stalled = stalled_of(found, over=False, now=later)
    assert stalled is not None
    assert stalled.seconds == STALLED_SECONDS
    assert stalled.where == tuple(
        Stream(stage, shard, "gateway/books", 1, 3, (0, 2))
        for stage, shard in (("results", 0), ("q3-join", 1))
    )


def make_database(root: Path, stage: str) -> Path:
    path = database_path(root, "c1", stage, 0)
    store = ClientStore.begin(path, spec(), synchronous="OFF")
    with transaction(store.db):
        store.create(stage, 0, [("gateway/books", "books")], NOW)
    store.close()
    return path


def test_a_damaged_database_hides_no_other_and_is_reported(tmp_path: Path) -> None:
    make_database(tmp_path, "q2-decades")
    make_database(tmp_path, "q3-join").write_bytes(b"not a database" * 1000)
    (tmp_path / "clients" / "c1" / "q4-top-0.db").touch()
    found = list(progress(tmp_path, "c1"))
    assert [(each.stage, each.moved) for each in found] == [("q2-decades", NOW)]
    assert [reason.partition(":")[0] for reason in failures(tmp_path, "c1")] == ["q3-join-0"]


def test_failures_that_shards_noted_are_found(tmp_path: Path) -> None:
    assert failures(tmp_path, "c1") == []
    store = ShardStore(tmp_path, "q3-join", 0, synchronous="OFF")
    store.fail("c1", "cannot be resumed", NOW, [])
    store.fail("c2", "something else", NOW, [])
    store.close()
    (tmp_path / "shards" / "q4-top-0.db").touch()
    sqlite3.connect(tmp_path / "shards" / "other.db").close()
    (tmp_path / "shards" / "broken.db").write_bytes(b"x" * 5000)
    assert failures(tmp_path, "c1") == ["cannot be resumed"]
