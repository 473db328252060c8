"""What a client keeps is the user's alone."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from booksan.errors import UsageError as RunUsageError
from booksan.local.workspace import Workspace
from booksan_client.state import ClientDirectory, ClientState, clients_home, known_clients
from booksan_common.errors import UsageError
from booksan_common.files import check_private, make_private
from tests.unit.client_user import User
from tests.unit.fake_gateway import FakeGateway
from tests.unit.test_workspace import IDENTITY

pytestmark = pytest.mark.timeout(60)

#: Somebody else.
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return clients_home()


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with FakeGateway() as gateway:
        yield User(tmp_path, gateway)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_directory_is_for_its_user_only(home: Path) -> None:
    with closing(ClientDirectory.open(home / "c")) as directory:
        directory.save(ClientState("c", "birds", {}, {}))
        assert mode(home / "c") == mode(home) == mode(home.parent) == 0o700
        assert mode(home / "c" / "client.json") == 0o600


@pytest.mark.parametrize("wide", [0o777, 0o775, 0o722])
def test_a_directory_of_ours_that_others_can_write_is_closed(home: Path, wide: int) -> None:
    (home / "c").mkdir(parents=True)
    for path in (home.parent, home, home / "c"):
        path.chmod(wide)
    ClientDirectory.open(home / "c").close()
    assert mode(home) & 0o022 == mode(home.parent) & 0o022 == 0


@as_root
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_directory_of_somebody_else_is_refused(home: Path, depth: int) -> None:
    place = home / "c"
    place.mkdir(parents=True)
    os.chown([place, home, home.parent][depth], NOBODY, NOBODY)
    with pytest.raises(UsageError, match=r"belongs to another user.*XDG_STATE_HOME"):
        ClientDirectory.open(place)
    assert not (place / "client.lock").exists()


@as_root
def test_clients_that_somebody_else_has_put_there_are_not_believed(user: User) -> None:
    """They could name a server that the user's token would go to."""
    assert user.submit("--detach").code == 0
    os.chown(user.state / "booksan" / "clients", NOBODY, NOBODY)
    seen = len(user.gateway.seen)
    for words in (["status"], ["results", user.id, "--out", str(user.out)], ["cancel", user.id]):
        ended = user.call(*words, "--json")
        assert ended.code == 2
        assert "belongs to another user" in ended.document["error"]
    assert len(user.gateway.seen) == seen


@as_root
def test_the_work_of_a_run_is_not_kept_where_somebody_else_rules(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    os.chown(place, NOBODY, NOBODY)
    with pytest.raises(RunUsageError, match=r"belongs to another user.*--data-dir"):
        Workspace.open(place, IDENTITY)
    assert not list(place.iterdir())


def test_the_directory_of_a_run_is_closed_to_others(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    place.chmod(0o777)
    Workspace.open(place, IDENTITY).close()
    assert mode(place) == 0o755


def test_a_link_instead_of_a_lock_or_a_state_is_not_followed(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (home / "c").mkdir(parents=True)
    (home / "c" / "client.lock").symlink_to(target)
    with pytest.raises(OSError, match=r"client\.lock"):
        ClientDirectory.open(home / "c")
    assert not target.exists()


def test_what_killed_writers_left_is_swept(home: Path) -> None:
    (home / "c").mkdir(parents=True)
    left = home / "c" / f".booksan-{'0' * 32}.tmp"
    left.touch()
    (home / "c" / "client.json").write_text(
        json.dumps({"id": "c", "dataset": "birds", "params": {}, "files": {}})
    )
    ClientDirectory.open(home / "c").close()
    assert not left.exists()
    assert [state.id for _, state in known_clients()] == ["c"]


def test_only_what_must_be_is_changed(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b", UsageError)
    (tmp_path / "a").chmod(0o750)
    check_private(tmp_path / "a", UsageError)
    assert mode(tmp_path / "a") == 0o750
