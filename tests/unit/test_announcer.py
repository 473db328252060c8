"""What a supervisor says to people: once, in words, and never more than text."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from booksan import news
from booksan.host import logs
from booksan.host.config import WorkerSpec
from booksan.spec import Spec
from booksan.supervisor.announcer import Announcer

WORKERS = (
    WorkerSpec("q3-join", 0),
    WorkerSpec("q3-join", 1),
    WorkerSpec("gateway", 0, entry="booksan.gateway.main:run"),
)
SPEC = Spec("c1", "books", 1, {}, {}, {"results": 1}, 0)


class Workers:
    """All workers of a host in one process, and the terminal of whoever started it."""

    def __init__(self, terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pipe = news.News()
        self.teller = Announcer(WORKERS)
        self._terminal = terminal
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(news._Own, "fd", self.pipe.write_fd)

    def ready(self, worker: str, url: str = "") -> list[str]:
        self._monkeypatch.setattr(news._Own, "worker", worker)
        news.ready(url)
        return self.said()

    def run(self, what: str, spec: Spec = SPEC, **more: Any) -> list[str]:
        news.of_run(spec, what, **more)
        return [line.partition(" ")[2] for line in self.said()]

    def said(self) -> list[str]:
        self.teller.hear(self.pipe.read())
        found = b""
        with suppress(BlockingIOError):
            while True:
                found += os.read(self._terminal, 65536)
        return found.decode().replace("\r", "").splitlines()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    monkeypatch.setattr(logs._Terminal, "fd", theirs)
    yield Workers(ours, monkeypatch)
    os.close(ours)
    os.close(theirs)


def test_a_host_is_ready_once_when_all_of_its_workers_are_at_work_at_once(
    workers: Workers,
) -> None:
    assert workers.ready("q3-join.0") == []
    assert workers.ready("gateway.0", "http://127.0.0.1:7300") == []
    workers.teller.lost("q3-join.0")
    assert workers.ready("q3-join.1") == []
    assert not workers.teller.ready
    assert workers.ready("q3-join.0") == [
        "booksan: ready at http://127.0.0.1:7300, 1 stage, 3 processes; Ctrl-C ends it",
        "         booksan submit DATASET FILES --out DIR --server http://127.0.0.1:7300",
    ]
    workers.teller.lost("q3-join.0")
    assert workers.ready("q3-join.0") == []
    assert workers.teller.ready


def test_what_a_host_waits_for_is_told_until_it_is_ready(workers: Workers) -> None:
    news.waits("results.0 cannot be reached; start the host that runs it")
    assert workers.said() == [
        "booksan: not ready yet: results.0 cannot be reached; start the host that runs it"
    ]
    for worker in WORKERS:
        workers.ready(worker.name)
    news.waits("results.0 cannot be reached; start the host that runs it")
    assert workers.said() == []


def test_a_run_is_told_of_from_its_begin_to_its_end(workers: Workers) -> None:
    assert workers.run(news.BEGINS) == ["run c1 of books begins"]
    assert workers.run(news.BEGINS) == []
    (failed,) = workers.run(news.FAILED, reason="q3-join.0: no such column")
    assert failed.startswith("run c1 of books failed after 0.")
    assert failed.endswith(" s: q3-join.0: no such column")
    assert workers.run(news.FAILED, reason="q3-join.0: no such column") == []
    assert workers.run(news.HEALED) == ["run c1 of books is healed and goes on"]
    (done,) = workers.run(news.DONE, rows=12345)
    assert done.startswith("run c1 of books is done: 12,345 rows, 0.")
    assert workers.run(news.GONE, reason="done") == [], "its answers were fetched"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("cancelled", "run c1 of books was cancelled"),
        ("expired", "run c1 of books has expired"),
        ("idle", "run c1 of books was given up: its upload has stopped"),
    ],
)
def test_a_run_of_before_is_not_new_and_its_end_is_told_without_a_time(
    workers: Workers, how: str, words: str
) -> None:
    assert workers.run(news.DONE, rows=7) == ["run c1 of books is done: 7 rows"]
    assert workers.run(news.GONE, reason=how) == [words]


def test_a_run_that_is_begun_anew_is_another_one(workers: Workers) -> None:
    again = Spec("c1", "books", 1, {}, {}, {"results": 1}, 0, generation=1)
    assert workers.run(news.BEGINS) == ["run c1 of books begins"]
    assert workers.run(news.BEGINS, again) == ["run c1 of books begins anew"]


def test_nothing_that_a_reason_holds_steers_the_terminal(workers: Workers) -> None:
    (line,) = workers.run(news.FAILED, reason="\x1b[2J\u202egone\nrun c2 of books begins" * 50)
    assert line.isprintable()
    assert line.startswith("run c1 of books failed: ")


def test_where_nobody_sits_the_same_is_an_event(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs._Terminal, "fd", None)
    assert workers.run(news.BEGINS) == []
    (event,) = map(json.loads, capfd.readouterr().err.splitlines())
    assert (event["client"], event["event"]) == ("c1", "run c1 of books begins")


def test_news_for_which_there_is_no_room_keep_no_worker_waiting(workers: Workers) -> None:
    for _ in range(10_000):
        news.of_run(SPEC, news.FAILED, reason="\U0001f4a5" * 5000)
    words = workers.pipe.read()
    assert 1 < len(words) < 10_000
    assert all(word["client"] == "c1" for word in words)
