"""A host does not start with versions of data sets that unfinished runs do not have."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from booksan.cluster.prepare import prepare
from booksan.datasets import dataset_named
from booksan.errors import UsageError
from booksan.spec import HOME, Spec
from booksan.state.client import ENDED, ClientStore, database_path
from booksan.state.database import transaction
from booksan.state.readers import unfinished_clients
from booksan.state.shard import ShardStore
from booksan.transport.base import Outgoing
from tests.integration.test_host_command import setup_of
from tests.support.command import Place
from tests.support.hosts import command, place_for_hosts

BOOKS = dataset_named("books")

NEXT = BOOKS.version + 1
LATER = int(time.time()) + 3600
SPEC = Spec("c1", "books", NEXT, {}, {}, {"q3-join": 1, "results": 1}, LATER)
Change = Callable[[ClientStore], None]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("BOOKSAN_QUEUES", raising=False)
    return tmp_path / "data"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


def start(data_dir: Path) -> None:
    prepare(setup_of(stages="q3-join,results", data_dir=data_dir))


def hold(data_dir: Path, spec: Spec, stage: str, *changes: Change) -> None:
    """The state of a client at a shard."""
    path = database_path(data_dir, spec.client, stage, 0)
    store = ClientStore.begin(path, spec, synchronous="OFF")
    with transaction(store.db):
        store.create(stage, 0, [("gateway/books", "books")], time.time())
        for change in changes:
            change(store)
    store.close()


def ended(store: ClientStore) -> None:
    store.set_meta("phase", ENDED)


def posted(store: ClientStore) -> None:
    store.post([Outgoing("results.0", b"a message")])


def complete(store: ClientStore) -> None:
    store.db.execute("UPDATE inputs SET complete = 1")


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        ("q3-join", []),
        ("q3-join", [complete]),
        ("q3-join", [complete, ended, posted]),
        (HOME, []),
        (HOME, [complete, posted]),
    ],
)
def test_an_unfinished_run_of_another_version_keeps_the_host_from_starting(
    data_dir: Path, stage: str, changes: list[Change]
) -> None:
    start(data_dir)
    hold(data_dir, SPEC, stage, *changes)
    with pytest.raises(UsageError) as caught:
        start(data_dir)
    assert str(caught.value) == (
        f"{data_dir} has unfinished clients (c1) that were begun with version {NEXT} of books, and "
        f"this booksan has version {BOOKS.version}; start the host with the booksan that had it "
        "until they are done or cancelled, or name another --data-dir"
    )


@pytest.mark.parametrize(
    ("stage", "changes"),
    [("q3-join", [complete, ended]), (HOME, [complete]), (HOME, [complete, ended])],
)
def test_a_run_that_is_computed_keeps_its_answers_under_any_version(
    data_dir: Path, stage: str, changes: list[Change]
) -> None:
    start(data_dir)
    hold(data_dir, SPEC, stage, *changes)
    start(data_dir)
    assert [one.client for one in unfinished_clients(data_dir)] == ["c1"]


def test_the_version_that_runs_were_begun_with_starts_again(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(data_dir)
    hold(data_dir, SPEC, "q3-join")
    with pytest.raises(UsageError, match="were begun with version"):
        start(data_dir)
    monkeypatch.setattr("booksan.datasets.dataset_named", lambda _: replace(BOOKS, version=NEXT))
    start(data_dir)


def test_a_run_that_failed_or_is_over_keeps_nobody_from_starting(data_dir: Path) -> None:
    start(data_dir)
    for client in ("c1", "c2", "c3"):
        spec = replace(SPEC, client=client, expires=1 if client == "c3" else LATER)
        hold(data_dir, spec, "q3-join")
    store = ShardStore(data_dir, "q3-join", 0, synchronous="OFF")
    store.leave_tombstone("c1", "done", LATER, [])
    store.db.execute("INSERT INTO failures VALUES ('c2', 'a reason', ?, 1)", (LATER,))
    store.close()
    start(data_dir)


def test_a_data_set_whose_package_was_removed_is_missed_before_its_runs_are(
    data_dir: Path,
) -> None:
    start(data_dir)
    hold(data_dir, replace(SPEC, dataset="parrots"), "q3-join")
    with pytest.raises(UsageError) as caught:
        start(data_dir)
    told = str(caught.value)
    assert f"version {NEXT} of parrots, and it cannot be used here" in told
    assert "no data set 'parrots'" in told
    assert "start the host with the package that brings it" in told


def test_the_command_says_so_in_one_line(place: Place, data_dir: Path) -> None:
    start(data_dir)
    hold(data_dir, SPEC, "q3-join")
    refused = command(place, "host", "--stages", "q3-join,results", "--data-dir", data_dir)
    assert refused.code == 2
    assert f"begun with version {NEXT} of books" in refused.message
