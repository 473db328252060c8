"""The latest that the server says of a run, by long polls in a thread of its own."""

import threading
import time
from types import TracebackType
from typing import Self

from booksan_client.api import LONGEST_WAIT, ClientApi
from booksan_client.status import Status

#: Seconds from one status to the next while batches go out.
CALM = 0.5
#: The same while something is waited for: at first, and as a share of the time it took so far.
EAGER = 0.02
EAGER_SHARE = 0.05
#: Seconds between two statuses with all stages, which ask all hosts: for bars, and for stalls.
STAGES_SHOWN = 0.5
STAGES = 30.0


class Follower:
    """Asks again and again; what goes wrong is raised in the thread that looks."""

    def __init__(self, api: ClientApi, first: Status, *, show_stages: bool) -> None:
        self._api = api.apart()
        self._latest = first
        self._show_stages = show_stages
        #: Since when something is waited for, on the monotonic clock.
        self._eager_since: float | None = None
        self._error: Exception | None = None
        self._news = threading.Condition()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Returns when the thread has ended; a poll that is under way is broken off."""
        self._stopped.set()
        with self._news:
            self._news.notify_all()
        self._api.caller.close()
        self._thread.join()

    def latest(self) -> Status:
        with self._news:
            if self._error is not None:
                raise self._error
            return self._latest

    def wait_for_news(self, seen: Status, seconds: float) -> None:
        """Until there is another status than `seen`, for that long at most."""
        with self._news:
            self._news.wait_for(lambda: self._error or self._latest is not seen, seconds)

    def hurry(self) -> None:
        """From now on something is waited for."""
        with self._news:
            self._eager_since = time.monotonic()
            self._news.notify_all()

    def calm_down(self) -> None:
        """Nobody waits for anything that a status could tell."""
        with self._news:
            self._eager_since = None

    def _follow(self) -> None:
        stages_at = time.monotonic()
        try:
            while not self._stopped.is_set():
                with_stages = time.monotonic() >= stages_at
                self._tell(self._ask(with_stages))
                if with_stages:
                    stages_at = time.monotonic() + self._stages_pause
                self._pause()
        except Exception as error:  # noqa: BLE001 - raised where it is looked for
            with self._news:
                self._error = error
                self._news.notify_all()

    @property
    def _stages_pause(self) -> float:
        return STAGES_SHOWN if self._show_stages else STAGES

    def _ask(self, with_stages: bool) -> Status:
        if with_stages:
            return self._api.status(stages=True)
        wait = min(LONGEST_WAIT, self._stages_pause)
        return self._api.status(seen=self._latest.version, wait=wait)

    def _tell(self, status: Status) -> None:
        with self._news:
            self._latest = status
            self._news.notify_all()

    def _pause(self) -> None:
        """Ends early when somebody begins to wait."""
        with self._news:
            since = self._eager_since
            pause = CALM
            if since is not None:
                pause = min(CALM, max(EAGER, EAGER_SHARE * (time.monotonic() - since)))
            self._news.wait_for(lambda: self._eager_since != since or self._stopped.is_set(), pause)
