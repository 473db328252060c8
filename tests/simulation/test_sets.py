"""What holds for books holds for every data set: the oracle's answers, whatever happens."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from booksan.datasets import datasets
from booksan.stages.operator import Stateful
from booksan.state import columns
from booksan.state.columns import ColumnStore
from tests.simulation.world import CrashAt, Killed, World
from tests.support.data import Sample, shards_of
from tests.support.sets import SETTINGS, sample_of

MakeWorld = Callable[..., World]

#: Bytes of a batch: one row each, a few rows, and the whole file.
BATCH_BYTES = (1, 5_000, 100_000_000)
SETS = sorted(set(SETTINGS) - {"books"})


def assert_right(world: World, client: str, expected: Sample) -> None:
    assert world.failure(client) is None
    answers = world.answers(client)
    for name, content in expected.answers.items():
        assert answers[name] == content, name
    for source, rows in expected.rejected.items():
        assert [row for row, _ in world.rejected(client, source)] == rows


def test_every_data_set_has_an_oracle_here() -> None:
    assert set(SETTINGS) == set(datasets())


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("query", ["q1", "q2", "q3", "q4", "q5"])
def test_the_samples_try_every_query(name: str, query: str) -> None:
    answers = [sample_of(name, seed, rows=80).answers.get(query) for seed in range(4)]
    if answers[0] is None:
        assert query not in {each.name for each in datasets()[name].queries}
    else:
        assert any(answer is not None and answer.count(b"\n") > 1 for answer in answers)


@pytest.mark.parametrize("dirty", [False, True], ids=["clean", "dirty"])
@pytest.mark.parametrize("batch_bytes", BATCH_BYTES)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("name", SETS)
def test_any_order_of_any_batches_gives_the_oracles_answers(
    make_world: MakeWorld, name: str, count: int, batch_bytes: int, dirty: bool
) -> None:
    seed = 10 * count + dirty
    data = sample_of(name, seed, rows=40, dirty=dirty, batch_bytes=batch_bytes)
    world = make_world(seed, repeats=0.2)
    world.add_client(data.spec("one", shards_of(name, count)), data.batches)
    world.run()
    assert_right(world, "one", data)


@pytest.mark.parametrize("name", sorted(SETTINGS))
@pytest.mark.parametrize("loose", [0, 3, 17])
def test_rows_in_columns_are_merged_without_changing_an_answer(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, name: str, loose: int
) -> None:
    spreads = 0
    spread = ColumnStore._spread

    def counted(self: ColumnStore, frame: pl.DataFrame) -> None:
        nonlocal spreads
        spreads += 1
        spread(self, frame)

    monkeypatch.setattr(columns, "LOOSE_ROWS", loose)
    monkeypatch.setattr(columns, "LOADED_ROWS", 5)
    monkeypatch.setattr(ColumnStore, "_spread", counted)
    data = sample_of(name, 3, rows=60, batch_bytes=1_000)
    world = make_world(3, repeats=0.2)
    world.add_client(data.spec("one", shards_of(name, 1)), data.batches)
    world.run()
    assert_right(world, "one", data)
    assert spreads > 2


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_kill_in_any_step_of_a_merge_changes_no_answer(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each of the first writes of a store that merges, and of its output, is the last of a life."""
    monkeypatch.setattr(columns, "LOOSE_ROWS", 3)
    monkeypatch.setattr(columns, "LOADED_ROWS", 5)
    data = sample_of(name, 5, rows=20, batch_bytes=1_500)
    writes = 0
    fatal = -1
    insert, delete = ColumnStore._insert, ColumnStore._delete

    def note() -> None:
        nonlocal writes
        writes += 1
        if writes == fatal:
            raise Killed

    def deadly_insert(self: ColumnStore, *args: Any, **more: Any) -> None:
        insert(self, *args, **more)
        note()

    def deadly_delete(self: ColumnStore, *args: Any) -> None:
        delete(self, *args)
        note()

    monkeypatch.setattr(ColumnStore, "_insert", deadly_insert)
    monkeypatch.setattr(ColumnStore, "_delete", deadly_delete)
    for fatal in range(1, 60, 4):
        writes = 0
        world = make_world(fatal)
        world.add_client(data.spec("one", shards_of(name, 1)), data.batches)
        world.run()
        assert_right(world, "one", data)
        assert world.deaths or writes < fatal


@pytest.mark.parametrize("name", SETS)
def test_files_without_rows_have_answers_too(make_world: MakeWorld, name: str) -> None:
    data = sample_of(name, 1, rows=0)
    world = make_world(1)
    world.add_client(data.spec("one", shards_of(name, 2)), data.batches)
    world.run()
    assert_right(world, "one", data)


def test_clients_of_all_data_sets_at_once_each_get_their_own_answers(
    make_world: MakeWorld,
) -> None:
    """Stages of the same name in several data sets are served by the same workers."""
    world = make_world(4, repeats=0.1)
    expected = {name: sample_of(name, 4, dirty=name != "flights") for name in SETTINGS}
    for name, data in expected.items():
        world.add_client(data.spec(name, shards_of(name, 2, 2)), data.batches)
    world.run()
    for name, data in expected.items():
        assert_right(world, name, data)
        world.release(name)
    world.drain()
    assert list((world.root / "clients").iterdir()) == []


@pytest.mark.parametrize("name", SETS)
def test_a_kill_at_any_point_of_any_worker_changes_no_answer(
    make_world: MakeWorld, record_property: Callable[[str, object], None], name: str
) -> None:
    """Every worker is killed once at each point that it passes, one run for each stage."""
    data = sample_of(name, 7, rows=30, batch_bytes=3_000)
    spec = data.spec("one", shards_of(name, 1))
    calm = make_world(7)
    calm.add_client(spec, data.batches)
    calm.run()
    deaths = 0
    for stage in datasets()[name].stages:
        worker = f"{stage.name}.0"
        points = [point for victim, point in calm.hits if victim == worker]
        assert len(points) >= (8 if isinstance(stage.operator, Stateful) else 5), worker
        world = make_world(7, [CrashAt(worker, point, nth) for point in points for nth in (1, 3)])
        world.add_client(spec, data.batches)
        world.run()
        assert_right(world, "one", data)
        assert world.deaths >= len(points)
        deaths += world.deaths
    record_property(f"deaths in simulated runs of {name}", deaths)


@pytest.mark.parametrize(("name", "worker"), [("steam", "q3-join.0"), ("steam", "results.0")])
def test_rows_that_were_joined_are_counted_once(
    make_world: MakeWorld, name: str, worker: str
) -> None:
    """Repeats and a kill at every point of a join, or of the home, change no count."""
    data = sample_of(name, 7, rows=60, batch_bytes=2_000)
    spec = data.spec("one", shards_of(name, 2))
    calm = make_world(7)
    calm.add_client(spec, data.batches)
    calm.run()
    points = [point for victim, point in calm.hits if victim == worker]
    wild = make_world(8, [CrashAt(worker, point, nth) for point in points for nth in (1, 2)])
    wild.transport.repeats = 0.3
    wild.add_client(spec, data.batches)
    wild.run()
    assert wild.deaths >= len(points)
    counted = []
    for world in (calm, wild):
        world.drain()
        status = world.views["one"].status()
        assert status is not None
        counted.append(
            {
                key: (len(each), sum(c.rows for c in each), sum(c.matched for c in each))
                for key, each in status.joined.items()
            }
        )
    assert counted[0] == counted[1]
    assert set(counted[0]) == {("reviews", stage) for stage in ("q3-join", "q4-english", "q5-join")}
    assert all(shards == 2 and 0 < matched < rows for shards, rows, matched in counted[0].values())
