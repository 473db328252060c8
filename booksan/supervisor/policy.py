"""When a dead worker starts again, and when the supervisor gives up. Time in, decision out."""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class RestartPolicy:
    """The rules for one worker.

    - A worker that lived for `healthy_after` seconds is healthy: its next start comes after
      `first_delay`, whatever was before.
    - A quick death comes earlier than that. After quick deaths in a row the starts of the worker
      are spaced by `first_delay`, times `factor` each time, up to `max_delay`. The space is
      measured from start to start, so a worker that did live for `max_delay` never waits.
    - A quick death that was the worker's own doing (any exit, a crash) is a failure. More than
      `max_restarts` failures within `window` seconds and the supervisor gives up. A worker killed
      from outside is no failure, however often: it says nothing about the worker.
    """

    #: Seconds. Small, since a killed worker should be at work again at once.
    first_delay: float = 0.02
    factor: float = 2.0
    #: Seconds. Bounds what a crash loop costs.
    max_delay: float = 1.0
    #: Seconds. Longer than a slow start on a busy machine, which proves nothing yet.
    healthy_after: float = 5.0
    #: More than the deaths that a worker needs to set a deadly message aside.
    max_restarts: int = 15
    #: Seconds. At least max_restarts * (healthy_after + max_delay), or a slow loop goes unseen.
    window: float = 120.0


class RestartHistory:
    """The deaths of one worker so far."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._spacing = policy.first_delay
        self._failures: deque[float] = deque()

    def died(self, started: float, now: float, *, killed: bool) -> float | None:
        """Say when to start the worker again; None: give up.

        `killed`: by a signal from outside.
        """
        policy = self._policy
        if now - started >= policy.healthy_after:
            self._spacing = policy.first_delay
            return now + policy.first_delay
        if not killed and self._too_many_failures(now):
            return None
        due = max(now + policy.first_delay, started + self._spacing)
        self._spacing = min(self._spacing * policy.factor, policy.max_delay)
        return due

    def _too_many_failures(self, now: float) -> bool:
        self._failures.append(now)
        while self._failures[0] <= now - self._policy.window:
            self._failures.popleft()
        return len(self._failures) > self._policy.max_restarts
