"""A data directory belongs to one run, is worked on by one process, and goes when the run does."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from booksan.errors import UsageError
from booksan.local.workspace import Identity, Pinned, Workspace
from booksan_common.files import state_home

#: Long after any clock that these tests may meet.
LATER = 2**40
FRESH = Pinned("run-1", {"q3-join": 2, "results": 1}, LATER)
IDENTITY = Identity(
    "books",
    1,
    {"q1.word": "verteilt", "q3.min_reviews": 5, "q5.percentile": 90.0},
    {"books": {"path": "books.csv", "size": 10, "ends": "abc"}},
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "booksan"


@contextmanager
def opened(data_dir: Path | None, identity: Identity = IDENTITY) -> Iterator[Workspace]:
    with closing(Workspace.open(data_dir, identity)) as workspace:
        yield workspace


def begun(data_dir: Path | None, identity: Identity = IDENTITY, fresh: Pinned = FRESH) -> Path:
    """A run that was begun and left; there is work in its directory."""
    with opened(data_dir, identity) as workspace:
        assert workspace.pinned(fresh, 0) == (fresh, False)
        (workspace.path / "clients").mkdir()
        (workspace.path / "clients" / "x.db").write_bytes(b"x")
        (workspace.path / "secret").write_bytes(b"x")
        return workspace.path


def with_file(**changes: Any) -> Identity:
    return replace(IDENTITY, files={"books": {**IDENTITY.files["books"], **changes}})


PLACES = pytest.mark.parametrize("given", [True, False])


def place(tmp_path: Path, given: bool) -> Path | None:
    return tmp_path / "data" if given else None


@PLACES
def test_a_run_that_was_left_goes_on_with_what_it_began_with(tmp_path: Path, given: bool) -> None:
    path = begun(place(tmp_path, given))
    other = Pinned("run-2", {"q3-join": 9, "results": 9}, LATER + 1)
    for _ in range(2):
        with opened(place(tmp_path, given)) as workspace:
            assert workspace.path == path
            assert workspace.pinned(other, LATER - 1) == (FRESH, True)
            assert (path / "clients" / "x.db").exists()


@PLACES
def test_a_second_process_is_refused_while_the_first_works(tmp_path: Path, given: bool) -> None:
    with opened(place(tmp_path, given)) as workspace:
        workspace.pinned(FRESH, 0)
        with pytest.raises(UsageError, match="another booksan is working on this run"):
            Workspace.open(place(tmp_path, given), IDENTITY)
    with opened(place(tmp_path, given)) as workspace:
        assert workspace.pinned(FRESH, 0)[1]


def test_pitfall_several_runs_work_at_the_same_time() -> None:
    other = replace(IDENTITY, params={"q1.word": "other"})
    with opened(None) as one, opened(None, other) as two:
        assert one.path != two.path
        assert not one.pinned(FRESH, 0)[1]
        assert not two.pinned(FRESH, 0)[1]


@pytest.mark.parametrize(
    "other",
    [
        replace(IDENTITY, dataset="flights"),
        replace(IDENTITY, version=2),
        replace(IDENTITY, params={**IDENTITY.params, "q3.min_reviews": 6}),
        with_file(size=11),
        with_file(ends="abd"),
        with_file(path="other.csv"),
    ],
)
def test_an_unfinished_run_is_not_mixed_with_another(tmp_path: Path, other: Identity) -> None:
    assert other.digest != IDENTITY.digest
    path = begun(tmp_path / "data")
    why = (
        "version 1 of books, and this booksan has version 2"
        if other.version == 2
        else "other files"
    )
    with opened(path, other) as workspace, pytest.raises(UsageError, match=why):
        workspace.pinned(FRESH, 0)
    with opened(path) as workspace:
        assert workspace.pinned(FRESH, 0) == (FRESH, True)


def test_the_same_run_has_the_same_name_everywhere() -> None:
    turned = replace(IDENTITY, params=dict(reversed(list(IDENTITY.params.items()))))
    assert turned.digest == IDENTITY.digest
    assert len(IDENTITY.digest) == 16


def test_pitfall_a_finished_run_leaves_nothing_on_the_disk(home: Path) -> None:
    path = begun(None)
    with opened(None) as workspace:
        workspace.settle(workspace.pinned(FRESH, 0)[0])
        workspace.finish()
    assert not path.exists()
    assert list((home / "runs").iterdir()) == []


def test_a_directory_that_the_user_named_stays_and_can_be_used_again(tmp_path: Path) -> None:
    path = begun(tmp_path / "data")
    with opened(path) as workspace:
        workspace.settle(workspace.pinned(FRESH, 0)[0])
        workspace.finish()
    assert not (path / "clients").exists()
    assert not (path / "secret").exists()
    with opened(path, with_file(path="other.csv")) as workspace:
        assert workspace.pinned(FRESH, 0) == (FRESH, False)


@PLACES
def test_a_kill_while_a_finished_run_is_removed_leaves_nothing_half_alive(
    tmp_path: Path, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    def kill(*_: object, **__: object) -> None:
        raise Killed

    path = begun(place(tmp_path, given))
    with opened(place(tmp_path, given)) as workspace:
        pinned, _ = workspace.pinned(FRESH, 0)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", kill)
            workspace.settle(pinned)
            with pytest.raises(Killed):
                workspace.finish()
    assert (path / "clients").exists()
    second = replace(FRESH, client="run-2")
    with opened(place(tmp_path, given)) as workspace:
        assert workspace.pinned(second, 0) == (second, False)
        assert not (path / "clients").exists()


@PLACES
def test_an_expired_run_begins_anew(tmp_path: Path, given: bool) -> None:
    path = begun(place(tmp_path, given))
    second = replace(FRESH, client="run-2", expires=LATER * 2)
    with opened(place(tmp_path, given)) as workspace:
        assert workspace.pinned(second, LATER) == (second, False)
        assert not (path / "clients").exists()
        assert not (path / "secret").exists()


def test_a_directory_of_someone_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with (
        pytest.raises(UsageError, match="not empty and not a data directory of booksan"),
        opened(tmp_path / "mine") as workspace,
    ):
        workspace.pinned(FRESH, 0)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "x"


def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="cannot be used as data directory"):
            Workspace.open(path, IDENTITY)


def test_runs_on_earlier_contents_of_the_same_files_are_removed() -> None:
    old = begun(None, with_file(ends="old"))
    elsewhere = begun(None, with_file(path="elsewhere.csv", ends="old"))
    same_files = begun(None, replace(IDENTITY, params={}))
    with opened(None):
        assert not old.exists()
        assert elsewhere.exists()
        assert same_files.exists()


def test_a_run_that_is_being_worked_on_is_never_removed() -> None:
    with opened(None, with_file(ends="old")) as busy:
        busy.pinned(FRESH, 0)
        with opened(None):
            assert busy.path.exists()
        assert busy.pinned(FRESH, 0) == (FRESH, True)


def test_state_is_kept_where_the_user_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert state_home() == tmp_path / "state" / "booksan"
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("XDG_STATE_HOME")
        else:
            monkeypatch.setenv("XDG_STATE_HOME", unset)
        assert state_home() == tmp_path / "me" / ".local" / "state" / "booksan"


def test_what_a_removal_that_was_cut_short_left_is_swept_away(home: Path) -> None:
    left = home / "runs" / "0123456789abcdef"
    (left / "clients").mkdir(parents=True)
    with opened(None) as workspace:
        assert workspace.path != left
        assert not left.exists()


def test_a_settled_run_is_begun_anew_by_the_same_command(home: Path) -> None:
    path = begun(None)
    assert home in path.parents
    with opened(None) as workspace:
        workspace.settle(workspace.pinned(FRESH, 0)[0])
    second = replace(FRESH, client="run-2")
    with opened(None) as workspace:
        assert workspace.pinned(second, 0) == (second, False)
