"""A server cannot make the client write anywhere but into its directories."""

import copy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from booksan_common.errors import ServerError
from booksan_common.names import answer_names, plain_name, plain_names
from tests.unit.client_user import User
from tests.unit.fake_gateway import ANSWER, DATASET, Answer, FakeGateway, Seen

pytestmark = pytest.mark.timeout(120)

EVIL = ["../evil", "/tmp/evil", "..", ".", "", ".bashrc", "a/b", "a\\b", "a\0b", "a\nb", "-rf"]
EVIL += ["x" * 65, "é", "a b", "\x1b[31m", "rejected", "REJECTED"]


@pytest.mark.parametrize("name", EVIL)
def test_a_name_that_could_be_another_place_is_refused(name: str) -> None:
    with pytest.raises(ServerError, match="nothing was written"):
        answer_names([name])


@pytest.mark.parametrize("name", [None, 5, ["q1"], {"a": 1}])
def test_what_is_no_text_is_no_name(name: object) -> None:
    with pytest.raises(ServerError):
        plain_name("a source", name)


def test_plain_names_are_taken() -> None:
    names = ["q1", "Q_2", "q3-join", "q4.top", "_5", "x" * 64]
    assert plain_names("an answer", names) == names
    with pytest.raises(ServerError, match="two of the same name"):
        plain_names("an answer", ["q1", "Q1"])


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with FakeGateway() as gateway:
        yield User(tmp_path / "home" / "me", gateway)


def everything(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if not path.is_dir()}


def check_refused(user: User, process: "subprocess.Popen[bytes]", before: set[Path]) -> None:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 7, err
    assert b"Traceback" not in out + err
    assert b"nothing was written" in err
    assert b"\x1b" not in err
    root = user.root.parent.parent
    new = everything(root) - before
    assert all(path.is_relative_to(user.state) for path in new), new
    assert not Path("/tmp/evil.csv").exists()


@pytest.mark.parametrize("evil", ["../evil", "/tmp/evil", "rejected", "\x1b]0;evil\x07"])
def test_answers_with_evil_names_are_not_fetched(user: User, evil: str) -> None:
    """The description is good; the status names another answer."""
    before = everything(user.root.parent.parent)

    def lie(seen: Seen) -> Answer | None:
        if "/results/" in seen.path:
            return Answer(200, raw=ANSWER)
        if seen.method != "GET" or not user.gateway.runs or seen.path.endswith("birds"):
            return None
        found: dict[str, Any] = user.run.status(user.id)
        found["answers"] = {evil: {"rows": 2, "complete": True}}
        return Answer(200, found)

    user.gateway.fault = lie
    with user.process("--json") as process:
        check_refused(user, process, before)


@pytest.mark.parametrize("evil", ["../evil", "/tmp/evil", "..", "\x1b[2J"])
@pytest.mark.parametrize("part", ["sources", "queries", "params", "name"])
def test_a_data_set_with_evil_names_is_not_begun(user: User, part: str, evil: str) -> None:
    before = everything(user.root.parent.parent)
    found: dict[str, Any] = copy.deepcopy(DATASET)
    if part == "name":
        found["name"] = evil
    else:
        found[part][0]["name"] = evil
    user.gateway.dataset = found
    with user.process() as process:
        check_refused(user, process, before)
    assert not user.gateway.runs
