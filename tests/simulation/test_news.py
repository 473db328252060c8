"""What people hear of a run does not depend on who was killed meanwhile."""

import pytest

from booksan import news
from booksan.supervisor import announcer
from booksan.supervisor.announcer import Announcer
from tests.simulation.test_crashes import run_case
from tests.simulation.world import CrashAt

HOME = "results.0"


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> news.News:
    pipe = news.News()
    monkeypatch.setattr(news._Own, "fd", pipe.write_fd)
    monkeypatch.setattr(news._Own, "worker", HOME)
    return pipe


def heard(pipe: news.News, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], int]:
    """What a supervisor says, and how many words came to it."""
    said: list[str] = []
    monkeypatch.setattr(announcer, "tell", lambda who, event, **more: said.append(event))
    words = pipe.read()
    Announcer(()).hear(words)
    return [line.rpartition(", ")[0] or line for line in said], len(words)


def test_a_run_begins_and_ends_once_wherever_its_home_is_killed(
    pipe: news.News, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = run_case(()).hits
    quiet, count = heard(pipe, monkeypatch)
    assert quiet == ["run one of books begins", "run one of books is done: 54 rows"]
    assert count == 3, "the last one tells that its answers were fetched"
    repeats = 0
    for (worker, point), times in sorted(hits.items()):
        for nth in {1, times} if worker == HOME else ():
            assert run_case([CrashAt(worker, point, nth)]).deaths == 1
            said, words = heard(pipe, monkeypatch)
            assert said == quiet, (point, nth)
            repeats += words - count
    assert repeats > 0, "some of them told again what they had not committed"
