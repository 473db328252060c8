"""A directory holds the answers of one run, written by one command, and nothing else is touched."""

import json
import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from booksan_client.collect import MANIFEST, OutDirectory
from booksan_common.errors import UsageError
from booksan_common.files import replacing
from tests.unit.client_user import Gate, User, until
from tests.unit.fake_gateway import ANSWER, FakeGateway

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with FakeGateway() as gateway:
        yield User(tmp_path, gateway)


def visible(path: Path) -> list[str]:
    return sorted(each.name for each in path.glob("[!.]*"))


def write(out: OutDirectory, name: str, content: bytes) -> None:
    with out.writing(name, lambda: None) as pieces:
        pieces.begin()(content)


def filled(path: Path, client: str, form: str, *names: str) -> None:
    with closing(OutDirectory.open(path)) as out:
        out.begin(client, form)
        for name in names:
            write(out, name, f"{client} {name}".encode())


def test_answers_of_another_run_go_before_the_first_new_one_comes(tmp_path: Path) -> None:
    filled(tmp_path, "one", "csv", "q1.csv", "q2.csv", "rejected.csv")
    (tmp_path / "notes.txt").write_text("mine")
    with closing(OutDirectory.open(tmp_path)) as out:
        out.check(["q1", "q2"])
        assert visible(tmp_path) == ["notes.txt", "q1.csv", "q2.csv", "rejected.csv"]
        out.begin("two", "csv")
        assert visible(tmp_path) == ["notes.txt"]
        write(out, "q1.csv", b"new")
    assert visible(tmp_path) == ["notes.txt", "q1.csv"]


def test_answers_in_another_format_go_too(tmp_path: Path) -> None:
    filled(tmp_path, "one", "json", "q1.json")
    filled(tmp_path, "one", "csv", "q1.csv")
    assert visible(tmp_path) == ["q1.csv"]


def test_answers_of_the_same_run_stay(tmp_path: Path) -> None:
    filled(tmp_path, "one", "csv", "q1.csv")
    filled(tmp_path, "one", "csv", "q2.csv")
    assert visible(tmp_path) == ["q1.csv", "q2.csv"]
    before = (tmp_path / MANIFEST).read_bytes()
    filled(tmp_path, "one", "csv", "q1.csv", "q2.csv")
    assert (tmp_path / MANIFEST).read_bytes() == before


@pytest.mark.parametrize("name", ["q1.csv", "q1.json", "q1.parquet", "rejected.csv"])
def test_a_file_in_the_way_that_is_not_ours_is_refused_and_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with (
        closing(OutDirectory.open(tmp_path)) as out,
        pytest.raises(UsageError, match=f"{name} was not written by booksan"),
    ):
        out.check(["q1"])
    assert (tmp_path / name).read_text() == "mine"
    assert not (tmp_path / MANIFEST).exists()


def test_an_answer_that_was_changed_since_is_the_users_own(tmp_path: Path) -> None:
    filled(tmp_path, "one", "csv", "q7.csv")
    (tmp_path / "q7.csv").write_text("with my remarks")
    with closing(OutDirectory.open(tmp_path)) as out:
        with pytest.raises(UsageError, match=r"q7\.csv"):
            out.check(["q1"])
        out.begin("two", "csv")
    assert (tmp_path / "q7.csv").read_text() == "with my remarks"


def test_a_file_that_never_got_its_name_makes_no_other_ours(tmp_path: Path) -> None:
    """The note comes before the name: whoever is killed between has written nothing there."""
    (tmp_path / "q1.csv").write_text("mine")
    with closing(OutDirectory.open(tmp_path)) as out:
        out.begin("one", "csv")
        out._note("q1.csv", "0" * 32)
    with closing(OutDirectory.open(tmp_path)) as out:
        out.begin("two", "csv")
    assert (tmp_path / "q1.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["../precious", "/etc/passwd", ".hidden", "a/b"])
def test_a_list_that_names_files_elsewhere_is_not_believed(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious").write_text("")
    (out / MANIFEST).write_text(json.dumps({"file": name, "digest": "x"}) + "\n")
    with pytest.raises(UsageError, match="is not readable"):
        OutDirectory.open(out)
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("torn", [b'{"file":"q2', bytes(8), bytes(8) + b'q2"}\n'])
def test_a_torn_line_is_forgotten(tmp_path: Path, torn: bytes) -> None:
    filled(tmp_path, "one", "csv", "q1.csv")
    whole = (tmp_path / MANIFEST).read_bytes()
    (tmp_path / MANIFEST).write_bytes(whole + torn)
    with closing(OutDirectory.open(tmp_path)) as out:
        out.check(["q1"])
    assert (tmp_path / MANIFEST).read_bytes() == whole


def test_a_link_instead_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    out, target = tmp_path / "out", tmp_path / "target"
    out.mkdir()
    (out / MANIFEST).symlink_to(target)
    with pytest.raises(UsageError, match="cannot be used"):
        OutDirectory.open(out)
    assert not target.exists()


def _hold(path: Path, held: Event) -> None:
    out = OutDirectory.open(path)
    with out.writing("q1.csv", lambda: None) as pieces:
        pieces.begin()(b"half")
        held.set()
        signal.pause()


def test_the_lock_and_the_half_file_go_with_a_killed_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, held))
    process.start()
    try:
        assert held.wait(60)
        with pytest.raises(UsageError, match="another booksan is writing into"):
            OutDirectory.open(tmp_path)
        assert len(list(tmp_path.glob(".booksan-*.tmp"))) == 1
    finally:
        # A process that holds on would keep the tests from ending.
        process.kill()
        process.join()
    OutDirectory.open(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_name_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "q1.csv"
    with replacing(path) as one, replacing(path) as other:
        one.write(b"a" * 100)
        other.write(b"b" * 50)
    assert path.read_bytes() in (b"a" * 100, b"b" * 50)
    assert [each.name for each in tmp_path.iterdir()] == ["q1.csv"]


def test_links_that_wait_for_a_temporary_are_not_followed(tmp_path: Path) -> None:
    """The name that was used once could be guessed."""
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / ".q1.csv.tmp").symlink_to(target)
    with replacing(tmp_path / "q1.csv") as file:
        (temporary,) = tmp_path.glob(".booksan-*")
        file.write(b"x")
    assert target.read_text() == "precious"
    assert len(temporary.name) > 32


def test_two_commands_for_one_directory_do_not_meet(user: User) -> None:
    gate = Gate(1)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting)
        other = user.submit("--set", "q1.top=5", "--json")
        assert other.code == 2
        assert "another booksan is writing into" in other.document["error"]
        gate.opened.set()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert (user.out / "q1.csv").read_bytes() == ANSWER


def test_submit_and_results_leave_only_their_own_answers(user: User) -> None:
    assert user.submit().code == 0
    assert user.submit("--format", "json").code == 0
    assert visible(user.out) == ["q1.json"]
    assert user.submit("--detach", "--id", "later", "--set", "q1.top=5").code == 0
    words = ("results", "later", "--out", str(user.out))
    assert user.call(*words, "--keep", "--format", "parquet").code == 0
    assert visible(user.out) == ["q1.parquet"]
    (user.out / "q1.csv").write_text("mine")
    ended = user.call(*words, "--json")
    assert ended.code == 2
    assert "was not written by booksan" in ended.document["error"]
    assert visible(user.out) == ["q1.csv", "q1.parquet"]
    assert user.gateway.runs["later"].gone is None


def test_a_refused_directory_leaves_no_run_behind(user: User) -> None:
    user.out.mkdir()
    (user.out / "q1.csv").write_text("mine")
    assert user.submit().code == 2
    assert not user.gateway.runs
    assert not user.leftovers
    assert [path.name for path in user.out.iterdir()] == ["q1.csv"]
