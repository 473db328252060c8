"""Waiting for a broker: long, but not for ever, and never as one that hangs."""

import threading
from concurrent.futures import Future

import pytest

from booksan.errors import TransportError
from booksan.host.config import HostConfig
from booksan.transport import rabbitmq_link
from booksan.transport.rabbitmq_link import ANSWER_SECONDS, PULSE, Link


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Link:
    """One whose broker never answers."""
    found = Link.__new__(Link)
    found._lock = threading.Lock()
    found._waiting = set()
    monkeypatch.setattr(found, "_give_up", lambda seconds: TransportError("no answer"))
    return found


def test_a_worker_that_waits_for_a_broker_gives_signs_of_life(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang_timeout = HostConfig(()).hang_timeout
    assert hang_timeout > 2 * PULSE, "or the supervisor takes it for one that hangs"
    assert hang_timeout < ANSWER_SECONDS, "or there would be no need"
    beats: list[None] = []
    monkeypatch.setattr(rabbitmq_link, "beat", lambda: beats.append(None))
    monkeypatch.setattr(rabbitmq_link, "PULSE", 0.02)
    with pytest.raises(TransportError, match="no answer"):
        link.wait(Future(), 0.2)
    assert len(beats) > 3


def test_there_is_no_limit_as_long_as_there_is_progress(link: Link) -> None:
    left = iter([3, 2, 2, 1, 1, 1, 1])
    asked: list[int] = []

    def progress() -> int:
        asked.append(next(left))
        return asked[-1]

    with pytest.raises(TransportError, match="no answer"):
        link.wait(Future(), 0.02, progress)
    assert asked == [3, 2, 2, 1, 1, 1]
