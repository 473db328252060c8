"""A run that ends in an odd way never keeps the same command from its answers."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from booksan.answers import Row
from booksan.errors import RunFailed
from booksan.generate.books import generate_books
from booksan.home import HomeStatus, HomeView
from booksan.local import run as module
from booksan.local.inputs import Input
from booksan.local.run import Interrupted, LocalRun, Options, Summary, run
from booksan.messages import Control, control_message, encode
from booksan.spec import HOME, ParamValue, Spec
from booksan.stages.books import BOOKS
from booksan.stages.graph import Query, queue_name
from booksan.transport.base import Outgoing
from booksan.transport.spool import Spool
from booksan_client.journal import Entry, Journal
from tests.oracle import books as oracle

SETTINGS: dict[str, ParamValue] = {"q2.decades": 3, "q3.min_reviews": 5, "q5.percentile": 60.0}


class Listener:
    """A display that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.resumed = False

    def begin(self, inputs: Sequence[Input], resumed: bool) -> None:
        self.resumed = resumed

    def uploaded(self, source: str, offset: int) -> None:
        pass

    def moved(self, root: Path, spec: Spec, status: HomeStatus) -> None:
        pass

    def answer(self, query: Query, rows: Sequence[Row], path: Path) -> None:
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
        deadline = time.monotonic() + 60
        while not self.view.how_gone() and time.monotonic() < deadline:
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
    specs: list[Spec] = []
    send = LocalRun._send

    def remember(self: LocalRun, each: Input, ticket: str) -> None:
        specs.append(self.spec)
        if each.source.name == "reviews":
            raise Interrupted
        send(self, each, ticket)

    with monkeypatch.context() as patch:
        patch.setattr(LocalRun, "_send", remember)
        with pytest.raises(Interrupted):
            command.run()
    report = control_message(specs[0], "q3-join/0", Control.FAILED, reason="the moon is full")
    with Spool(command.data_dir) as transport:
        transport.publish([Outgoing(queue_name(HOME, specs[0].home), encode(report))])
    with pytest.raises(RunFailed, match="the moon is full"):
        command.run()
    assert HomeView(command.data_dir, specs[0].client, specs[0].home).status() is not None
    command.run()
    assert command.listener.notes == ["the last run failed (the moon is full); beginning anew"]
    command.assert_right()


def test_an_error_outside_of_the_batches_ends_those_that_wait_for_room(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal cannot be written while other batches are held back."""

    begin = Journal.begin

    def full_after_two(self: Journal, number: int, entry: Entry) -> None:
        if number >= 2:
            raise OSError(28, "No space left on device")
        begin(self, number, entry)

    def never_room(self: Spool, queues: object, limit: object, timeout: float) -> bool:
        time.sleep(0.01)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "wait_for_room", never_room)
        patch.setattr(Journal, "begin", full_after_two)
        command.options = replace(command.options, batch_bytes=2_000)
        with pytest.raises(OSError, match="No space left"):
            command.run()
    command.run()
    command.assert_right()
