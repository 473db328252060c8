"""What is known of the other hosts: when they were heard, and which have left."""

from collections.abc import Collection

from booksan.supervisor.election.timing import Timing


class Contacts:
    """When each of the other hosts was last heard, and which have left."""

    def __init__(self, timing: Timing, hosts: Collection[int], now: float) -> None:
        self._timing = timing
        self.heard = dict.fromkeys(hosts, now)
        #: The life in which a host said that it is being stopped, and when it said so last.
        self.left: dict[int, tuple[int, float]] = {}

    def listen_anew(self, now: float) -> None:
        """Whatever was missed until now, silence counts from now on."""
        self.heard = dict.fromkeys(self.heard, now)

    def hear(self, host: int, boot: int, now: float) -> bool:
        """Say whether the host is back after it had left."""
        self.heard[host] = now
        if host in self.left and boot > self.left[host][0]:
            del self.left[host]
            return True
        return False

    def leave(self, host: int, boot: int, now: float) -> None:
        self.left[host] = boot, now

    def left_lately(self, host: int, now: float) -> bool:
        """Whether it has no part in an election.

        Only for a while: it may have started again without a word to this host. A new life is
        silent to nobody before it has listened for the time of a suspicion.
        """
        return host in self.left and now < self.left[host][1] + self._timing.lease

    def absent_from(self, host: int, now: float) -> float:
        """Since when, or from when on, the host cannot be acting.

        Whoever leads or claims the lead is heard at every heartbeat, so one that was silent for
        so long has stood still for longer than its lease, or is dead.
        """
        if self.left_lately(host, now):
            return float("-inf")
        return self.heard[host] + self._timing.suspicion
