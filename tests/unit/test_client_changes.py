"""A file that was changed between two commands never gives a mixture of old and new rows."""

import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.client_user import Gate, User, until
from tests.unit.fake_gateway import FakeGateway

pytestmark = pytest.mark.timeout(120)

#: Large enough that its middle is in neither end that the fingerprint looks at.
ROWS = 30_000


class LargeUser(User):
    """With a file of many batches, plain or compressed."""

    def __init__(self, root: Path, gateway: FakeGateway, *, zipped: bool) -> None:
        super().__init__(root, gateway)
        self.zipped = zipped
        if zipped:
            self.eggs = root / "eggs.csv.gz"
        self.write("wren")

    def write(self, middle: str) -> None:
        """The same size and time whatever the middle is."""
        names = ["wren"] * ROWS
        names[ROWS // 2] = middle
        rows = "".join(f"{name},{number}\n" for number, name in enumerate(names))
        data = f"Nest,Size\n{rows}".encode()
        # Without compression, so that another content has the same size.
        self.eggs.write_bytes(gzip.compress(data, 0, mtime=0) if self.zipped else data)
        os.utime(self.eggs, ns=(10**18, 10**18))

    @property
    def submission(self) -> list[str]:
        return [*super().submission[:-1], "5000"]

    def sent(self) -> bytes:
        return b"".join(data for _, data in sorted(self.run.batches["eggs"].items()))

    def content(self) -> bytes:
        data = self.eggs.read_bytes()
        return (gzip.decompress(data) if self.zipped else data).partition(b"\n")[2]

    def killed(self) -> None:
        """Most of the file has been taken."""
        gate = Gate(30)
        self.gateway.fault = gate
        with self.process() as process:
            until(lambda: gate.waiting == 4)
            process.kill()
        gate.opened.set()
        self.gateway.fault = lambda seen: None


@pytest.fixture(params=["plain", "gzip"])
def user(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LargeUser]:
    with FakeGateway() as gateway:
        yield LargeUser(tmp_path, gateway, zipped=request.param == "gzip")


def test_a_change_that_shows_in_neither_size_nor_time_is_found_and_nothing_is_answered(
    user: LargeUser,
) -> None:
    user.killed()
    before = user.eggs.stat()
    user.write("wran")
    after = user.eggs.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    ended = user.submit("--json")
    assert ended.code == 3
    assert f"{user.eggs}: has changed since its upload began" in ended.document["error"]
    assert not list(user.out.glob("q1*"))
    assert "eggs" not in user.run.ends
    user.write("wren")
    ended = user.submit()
    assert ended.code == 0, ended.err
    assert user.sent() == user.content()


def test_a_change_after_the_upload_is_found_too(user: LargeUser) -> None:
    assert user.submit("--detach").code == 0
    user.write("wran")
    ended = user.submit("--json")
    assert ended.code == 3
    assert not list(user.out.glob("q1*"))


@pytest.mark.parametrize("how", ["copied", "touched", "chmod"])
def test_a_file_with_the_same_content_is_not_refused(user: LargeUser, how: str) -> None:
    user.killed()
    if how == "copied":
        copy = user.root / "copy"
        shutil.copy2(user.eggs, copy)
        copy.replace(user.eggs)
    elif how == "touched":
        user.eggs.touch()
    else:
        user.eggs.chmod(0o600)
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    assert ended.document["resumed"] is True
    assert user.sent() == user.content()


@pytest.mark.parametrize("middle", ["wren", "wran"])
def test_a_file_that_is_written_while_it_is_sent_is_compared_at_the_end(
    user: LargeUser, middle: str
) -> None:
    gate = Gate(30)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting == 4)
        user.write(middle)
        gate.opened.set()
        _, err = process.communicate(timeout=60)
    if middle == "wren":
        assert process.returncode == 0, err
        assert user.sent() == user.content()
    else:
        # A compressed file may show it by its checksum before.
        assert process.returncode == 3, err
        assert bytes(user.eggs) in err
        assert "eggs" not in user.run.ends
