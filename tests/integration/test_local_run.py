"""A run that ends in an odd way never keeps the same command from its answers."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from booksan.datasets import dataset_named
from booksan.errors import RunFailed
from booksan.generate.books import generate_books
from booksan.home import HomeView
from booksan.local import run as module
from booksan.local.run import LocalRun, Options, Summary, run
from booksan.messages import Control, control_message, encode
from booksan.shards import queue_name
from booksan.spec import HOME, Spec
from booksan.transport.base import Outgoing
from booksan.transport.spool import Spool
from booksan_client.api import ClientApi
from booksan_client.inputs import Input
from booksan_client.state import Entry, Journal
from booksan_client.submission import Generation
from booksan_common import errors
from booksan_common.errors import Interrupted
from booksan_common.params import ParamValue
from booksan_common.shapes import Answer, Status
from tests.oracle import books as oracle

BOOKS = dataset_named("books")

SETTINGS: dict[str, ParamValue] = {"q2.decades": 3, "q3.min_reviews": 5, "q5.percentile": 60.0}


class Listener:
    """A display that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.resumed = False
        self.stages_every, self.shows_answers = 30.0, False

    def begin(self, inputs: Sequence[Input], resumed: bool) -> None:
        self.resumed = resumed

    def sent_before(self, sent: Mapping[str, tuple[int, int]]) -> None:
        pass

    def uploaded(self, source: str, position: int, batches: int) -> None:
        pass

    def moved(self, status: Status) -> None:
        pass

    def answer(self, page: Answer, path: Path) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, bytes]]:
    made = generate_books(tmp_path_factory.mktemp("data"), books=80, reviews=300, seed=3)
    return (*made.paths, oracle.answers(*made.paths, SETTINGS))


class Command:
    """The same command, again and again."""

    def __init__(self, data: tuple[Path, Path, dict[str, bytes]], root: Path) -> None:
        self.expected = data[2]
        self.data_dir = root / "data"
        params = BOOKS.defaults | SETTINGS
        self.options = Options(
            BOOKS, data[:2], root / "out", params, workers=1, data_dir=self.data_dir
        )
        self.listener = Listener()

    def run(self, stopping: Callable[[], bool] = lambda: False) -> Summary:
        self.listener = Listener()
        return run(self.options, self.listener, stopping)

    def spec(self, client: str) -> Spec:
        with contextlib.closing(HomeView(self.data_dir, client, 0)) as view:
            status = view.status()
        assert status is not None
        return status.spec

    def assert_right(self) -> None:
        found = {name: (self.options.out / f"{name}.csv").read_bytes() for name in self.expected}
        assert found == self.expected


@pytest.fixture
def command(data: tuple[Path, Path, dict[str, bytes]], tmp_path: Path) -> Command:
    return Command(data, tmp_path)


def test_a_run_that_is_stopped_after_the_release_is_begun_anew(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: LocalRun) -> None:
        # Only the shard's database is read, and that is closed each time.
        view = HomeView(self.root, self.pinned.client, 0)
        deadline = time.monotonic() + 60
        while view.how_gone() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(LocalRun, "_wait_until_gone", stop)
        with pytest.raises(Interrupted):
            command.run()
    command.run()
    assert not command.listener.resumed
    command.assert_right()


def test_a_run_that_expires_ends_and_the_same_command_begins_a_new_one(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "EXPIRY", 0)
        with pytest.raises(RunFailed, match="the run has expired"):
            command.run()
    command.run()
    command.assert_right()


def test_a_run_that_failed_is_begun_anew_and_says_so(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[str] = []
    send = Generation.send

    def remember(self: Generation, each: Input) -> None:
        clients.append(self.whole.state.id)
        if each.source.name == "reviews":
            raise Interrupted
        send(self, each)

    with monkeypatch.context() as patch:
        patch.setattr(Generation, "send", remember)
        with pytest.raises(Interrupted):
            command.run()
    spec = command.spec(clients[0])
    failure = {"letter": "", "round": 1, "reason": "the moon is full"}
    report = control_message(spec, "q3-join/0", Control.FAILED, **failure)
    with Spool(command.data_dir) as transport:
        transport.publish([Outgoing(queue_name(HOME, spec.home), encode(report))])
    with pytest.raises(errors.RunFailed, match="the moon is full"):
        command.run()
    assert command.spec(clients[0]) == spec
    command.run()
    assert command.listener.notes == ["the last run failed (the moon is full); beginning anew"]
    command.assert_right()


def test_an_error_outside_of_the_batches_ends_those_that_are_on_their_way(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal cannot be written while the server does not take the batches before."""

    begin = Journal.begin

    def full_after_two(self: Journal, number: int, entry: Entry) -> None:
        if number >= 2:
            raise OSError(28, "No space left on device")
        begin(self, number, entry)

    def never_taken(self: ClientApi, *words: object, **more: object) -> None:
        """As when the server answers 503 again and again."""
        while True:
            self.caller._wait(60)

    with monkeypatch.context() as patch:
        patch.setattr(ClientApi, "put", never_taken)
        patch.setattr(Journal, "begin", full_after_two)
        command.options = replace(command.options, batch_bytes=2_000)
        with pytest.raises(OSError, match="No space left"):
            command.run()
    command.run()
    command.assert_right()


def test_the_token_and_the_secret_of_a_run_are_for_its_user_alone(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Generation, each: Input) -> None:
        raise Interrupted

    monkeypatch.setattr(Generation, "send", stop)
    with pytest.raises(Interrupted):
        command.run()
    for name in ("token", "secret", "client.json"):
        assert (command.data_dir / name).stat().st_mode & 0o077 == 0, name
    token = (command.data_dir / "token").read_text()
    for path in (command.data_dir / "logs").iterdir():
        assert token not in path.read_text()


def test_a_gateway_that_is_killed_is_found_again_wherever_it_listens(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Generation.send

    def kill_first(self: Generation, each: Input) -> None:
        address = json.loads((command.data_dir / "gateway-address.json").read_text())
        # Without it, the new one cannot take the old port again.
        (command.data_dir / "gateway-address.json").unlink()
        os.kill(address["pid"], signal.SIGKILL)
        send(self, each)

    monkeypatch.setattr(Generation, "send", kill_first)
    summary = command.run()
    assert summary.restarts >= 2
    command.assert_right()
