"""The hand-over: who has to agree before a host may lead."""

from collections.abc import Collection, Mapping

from booksan.supervisor.election.timing import Timing


class Contacts:
    """When each of the other hosts was last heard, and which have left."""

    def __init__(self, timing: Timing, hosts: Collection[int], now: float) -> None:
        self._timing = timing
        self._heard = dict.fromkeys(hosts, now)
        self.left: dict[int, int] = {}

    def listen_anew(self, now: float) -> None:
        """Whatever was missed until now, silence counts from now on."""
        self._heard = dict.fromkeys(self._heard, now)

    def hear(self, host: int, boot: int, now: float) -> bool:
        """Say whether the host is back after it had left."""
        self._heard[host] = now
        if host in self.left and boot > self.left[host]:
            del self.left[host]
            return True
        return False

    def leave(self, host: int, boot: int) -> None:
        self.left[host] = boot

    def absent_from(self, host: int) -> float:
        """Since when, or from when on, the host cannot be acting.

        Whoever leads or claims the lead is heard at every heartbeat, so one that was silent for
        so long has stood still for longer than its lease, or is dead.
        """
        if host in self.left:
            return float("-inf")
        return self._heard[host] + self._timing.suspicion

    @property
    def heard(self) -> Mapping[int, float]:
        return self._heard


class Claim:
    """One attempt to lead: all others have agreed, are absent, or had the time to stop."""

    def __init__(self, timing: Timing, nonce: int, now: float) -> None:
        self.nonce = nonce
        self.agreed: set[int] = set()
        self._over = now + timing.handover

    def clear_from(self, contacts: Contacts) -> float:
        """From when on nobody else can be acting, as far as is known now."""
        waiting = (
            contacts.absent_from(host) for host in contacts.heard if host not in self.agreed
        )
        return min(max(waiting, default=float("-inf")), self._over)
