"""`booksan submit` and its kin against a real host: the same answers, whatever is killed."""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from booksan.datasets import dataset_named
from booksan.gateway.config import GatewayConfig, read_address, write_gateway_config
from booksan.generate.books import generate_books
from booksan.host.config import HostConfig, WorkerSpec, write_config
from booksan.host.handle import Host
from tests.oracle.books import answers
from tests.support.command import QUERIES, Ended, Place, Words, settings, wait_until
from tests.support.inputs import check_answers

BOOKS = dataset_named("books")

PARAMS = {"q2.decades": 3, "q3.min_reviews": 5, "q5.percentile": 80}
TOKEN = "a-token-for-this-test"
OPERATOR = "the-token-of-the-operator"


@dataclass(frozen=True)
class Server:
    """A host with a gateway, on the spool."""

    root: Path
    host: Host

    @property
    def address(self) -> dict[str, object]:
        wait_until(lambda: read_address(self.root))
        found = read_address(self.root)
        assert found is not None
        return found

    @property
    def environment(self) -> dict[str, str]:
        return {"BOOKSAN_SERVER": str(self.address["url"]), "BOOKSAN_TOKEN": TOKEN}

    def clients(self) -> list[str]:
        return [path.name for path in (self.root / "clients").glob("*")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("server")
    shards = {stage.name: 2 if stage.heavy else 1 for stage in BOOKS.stages}
    workers = [
        WorkerSpec(stage, shard) for stage, count in shards.items() for shard in range(count)
    ]
    gateway = WorkerSpec("gateway", 0, entry="booksan.gateway.main:run")
    write_config(root, HostConfig((gateway, *workers)))
    write_gateway_config(root, GatewayConfig("alpha", "127.0.0.1:0", "single", shards))
    env = {"BOOKSAN_TOKEN": TOKEN, "BOOKSAN_OPERATOR_TOKEN": OPERATOR, "BOOKSAN_QUEUES": ""}
    with Host(root, env | {"POLARS_MAX_THREADS": "1"}) as host:
        yield Server(root, host)


@dataclass(frozen=True)
class User:
    """Somebody with two files, and what the oracle makes of them."""

    place: Place
    server: Server
    books: Path
    reviews: Path

    @property
    def command(self) -> Words:
        # Small batches, so that there is a middle in which to die.
        small = ("--batch-bytes", "20000", *settings(PARAMS))
        return ["submit", "books", self.books, self.reviews, "--out", self.place.out, *small]

    def call(self, words: Words, env: Mapping[str, str] | None = None) -> Ended:
        return self.place.run(words, self.server.environment | dict(env or {}))

    def submit(self, *more: str | Path) -> Ended:
        return self.call([*self.command, *more])

    def killed_at(self, source: str, batch: int) -> None:
        """A submission that is killed when it has noted that this batch was taken."""
        words = b'"taken":%d}' % batch
        with self.place.started(self.command, self.server.environment) as process:
            wait_until(lambda: self._noted(source, words) or process.poll() is not None)
            assert process.poll() is None, "it ended before it could be killed"
            process.kill()
            process.wait()

    def _noted(self, source: str, words: bytes) -> bool:
        try:
            journals = self.place.state.glob(f"booksan/clients/*/{source}.journal")
            return any(words in path.read_bytes() for path in journals)
        except FileNotFoundError:
            return False

    def check(self) -> None:
        check_answers(self.place.out, self.books, self.reviews, PARAMS)
        assert not self.place.leftovers()
        wait_until(lambda: not self.server.clients())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("data")
    return generate_books(root, books=200, reviews=1_500, seed=9, dirty=True).paths


@pytest.fixture
def user(place: Place, server: Server, files: tuple[Path, Path]) -> User:
    copies = [Path(shutil.copy2(path, place.root / path.name)) for path in files]
    return User(place, server, *copies)


def test_the_answers_are_those_of_the_oracle_and_nothing_is_left_anywhere(user: User) -> None:
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    found = ended.document
    assert (found["resumed"], found["resent"]) == (False, 0)
    assert found["answers"].keys() == set(QUERIES)
    user.check()


def test_compressed_batches_give_the_same_answers(user: User) -> None:
    assert user.submit("--compress", "gzip").code == 0
    user.check()


@pytest.mark.parametrize(("source", "batch"), [("books", 0), ("reviews", 5), ("reviews", 40)])
def test_after_kill_9_the_same_command_goes_on_and_counts_what_it_sent_again(
    source: str, batch: int, user: User
) -> None:
    user.killed_at(source, batch)
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    assert ended.document["resumed"] is True
    # What was on its way, one that was noted just then, and what was taken and not yet noted.
    assert 0 <= ended.document["resent"] <= 9
    user.check()


def test_a_gateway_that_is_killed_is_waited_for(user: User) -> None:
    server = user.server
    with user.place.started([*user.command, "--json"], server.environment) as process:
        wait_until(lambda: user._noted("reviews", b'"taken":3}') or process.poll() is not None)
        os.kill(int(str(server.address["pid"])), signal.SIGKILL)
        ended = user.place.ended(process)
    assert ended.code == 0, ended.err
    user.check()


def test_a_file_that_changed_is_refused_and_new_begins_anew(user: User) -> None:
    user.killed_at("reviews", 3)
    lines = user.reviews.read_bytes().splitlines(keepends=True)
    user.reviews.write_bytes(b"".join(lines[: len(lines) // 2]))
    ended = user.submit("--json")
    assert ended.code == 3
    assert f"{user.reviews}: has changed since its upload" in ended.document["error"]
    ended = user.submit("--new", "--json")
    assert ended.code == 0, ended.err
    assert ended.document["resumed"] is False
    user.check()


def test_a_detached_run_is_looked_at_fetched_twice_and_forgotten(user: User) -> None:
    ended = user.submit("--detach", "--id", "kept-for-later")
    assert (ended.code, ended.out) == (0, "kept-for-later\n"), ended.err
    watched = user.call(["status", "kept-for-later", "--watch", "--json"])
    assert watched.document["state"] == "done"
    assert watched.document["stages"]["q3-join"]["done"] is True
    assert "kept-for-later" in user.call(["status"]).out
    results: Words = ["results", "kept-for-later", "--out", user.place.out]
    ended = user.call([*results, "--keep", "--format", "json", "--json"])
    assert ended.code == 0, ended.err
    assert (
        len(json.loads((user.place.out / "q3.json").read_text())) == ended.document["answers"]["q3"]
    )
    assert user.call(results).code == 0
    user.check()
    assert "no clients are known here" in user.call(["status"]).out


def test_a_run_that_is_cancelled_by_its_user_is_begun_anew_by_the_same_command(user: User) -> None:
    user.killed_at("reviews", 3)
    (id,) = user.server.clients()
    ended = user.call(["cancel", id, "--json"])
    assert ended.document == {"id": id, "how": "cancelled", "exit_code": 0}
    assert not user.place.leftovers()
    ended = user.submit("--json")
    assert ended.document["resumed"] is False
    user.check()


def test_a_run_that_the_operator_cancels_is_gone_for_its_user(user: User) -> None:
    user.killed_at("reviews", 3)
    operator = Place(user.place.root / "operator")
    env = user.server.environment | {"BOOKSAN_OPERATOR_TOKEN": OPERATOR}
    (found,) = operator.run(["list", "--json"], env).document["clients"]
    assert (found["dataset"], found["state"], found["host"]) == ("books", "uploading", "alpha")
    assert operator.run(["cancel", found["id"]], env).code == 0
    ended = user.submit("--json")
    assert ended.code == 8
    assert "is gone at the server (cancelled)" in ended.document["error"]
    assert not user.place.leftovers()
    assert user.submit().code == 0
    user.check()


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_right_token_nothing_is_done(token: str, user: User) -> None:
    ended = user.call([*user.command, "--json"], {"BOOKSAN_TOKEN": token})
    assert ended.code == 7
    assert "token" in ended.document["error"]
    assert not user.place.leftovers()
    assert not user.server.clients()


def test_parameters_and_files_are_checked_against_what_the_server_says(user: User) -> None:
    ended = user.submit("--set", "q2.decades=ten", "--json")
    assert (ended.code, ended.document["error"]) == (
        2,
        "q2.decades must be a whole number, not 'ten'",
    )
    swapped: Words = ["submit", "books", user.reviews, user.books, "--out", user.place.out]
    ended = user.call([*swapped, "--json"])
    assert ended.code == 3
    assert "looks like the file of 'reviews', not of 'books'" in ended.document["error"]
    ended = user.call(["submit", "boks", user.books, "--out", user.place.out, "--json"])
    assert ended.code == 2
    assert "no data set 'boks'; did you mean 'books'?" in ended.document["error"]


def test_ctrl_c_stops_at_once_and_the_same_command_goes_on(user: User) -> None:
    with user.place.started(user.command, user.server.environment) as process:
        wait_until(lambda: user._noted("reviews", b'"taken":3}') or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        ended = user.place.ended(process)
    assert ended.code == 130
    assert ended.message == "interrupted; the same command goes on where it was"
    ended = user.submit("--json")
    assert ended.document["resumed"] is True
    user.check()


def test_the_secret_of_a_client_is_in_no_log_and_no_command_line(user: User) -> None:
    words = [*user.command, "--json"]
    with user.place.started(words, user.server.environment) as process:
        wait_until(lambda: user._noted("books", b'"taken":0}'))
        (state,) = user.place.state.glob("booksan/clients/*/client.json")
        secret = json.loads(state.read_text())["secret"]
        lines = " ".join(" ".join(each.cmdline()) for each in _family(process.pid))
        ended = user.place.ended(process)
    assert ended.code == 0
    logs = "".join(path.read_text() for path in (user.server.root / "logs").iterdir())
    for word in (secret, TOKEN, OPERATOR):
        assert word not in logs + lines + ended.out + ended.err


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def test_the_oracle_has_something_for_every_query(files: tuple[Path, Path]) -> None:
    assert all(content.count(b"\n") > 1 for content in answers(*files, PARAMS).values())
