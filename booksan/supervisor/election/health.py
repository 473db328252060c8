"""Which hosts answer the leader. Time in, decision out."""

from collections.abc import Iterable

from booksan.supervisor.election.actions import Action, HostHealthy, HostSuspected
from booksan.supervisor.election.timing import Timing

_NEVER = float("inf")


class Health:
    """The hosts as one leader sees them, in one term."""

    def __init__(
        self, timing: Timing, hosts: Iterable[int], now: float, missed: int | None = None
    ) -> None:
        """`missed`: the leader before, if its silence is why there is a new one."""
        self._timing = timing
        #: Since when the host owes an answer.
        self._since = dict.fromkeys(hosts, now)
        self._misses = dict.fromkeys(self._since, 0)
        if missed is not None:
            # Its heartbeats were missed for long enough: no need to wait as long again.
            self._since[missed] = -_NEVER
            self._misses[missed] = timing.misses
        self._healthy: set[int] = set()
        self.suspected: set[int] = set()

    def asked(self) -> None:
        """A heartbeat went to all."""
        for host in self._misses:
            self._misses[host] += 1

    def answered(self, host: int, now: float) -> list[Action]:
        self._since[host] = now
        self._misses[host] = 0
        self.suspected.discard(host)
        if host in self._healthy:
            return []
        self._healthy.add(host)
        return [HostHealthy(host)]

    def left(self, host: int) -> None:
        """It is being stopped, so it owes nothing."""
        self._since[host] = _NEVER
        self.suspected.discard(host)
        self._healthy.discard(host)

    def returned(self, host: int, now: float) -> None:
        self._since[host] = now
        self._misses[host] = 0

    def overdue(self, now: float) -> list[Action]:
        """Tell of every host that has missed too much, once."""
        timing = self._timing
        found: list[Action] = []
        for host, since in self._since.items():
            late = now >= since + timing.suspicion and self._misses[host] >= timing.misses
            if late and host not in self.suspected:
                self.suspected.add(host)
                self._healthy.discard(host)
                found.append(HostSuspected(host))
        return found

    def next_due(self) -> float:
        """When somebody may be overdue. A host that lacks only misses is seen at a heartbeat."""
        suspicion, enough = self._timing.suspicion, self._timing.misses
        return min(
            (
                since + suspicion
                for host, since in self._since.items()
                if host not in self.suspected and self._misses[host] >= enough
            ),
            default=_NEVER,
        )
