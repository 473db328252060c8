"""What must hold in every schedule, checked at every event."""

from collections.abc import Collection
from itertools import combinations

from booksan.membership.member import Timing
from tests.simulation.election.host import Host
from tests.simulation.election.network import Network

_NEVER = float("inf")


class PromiseBroken(AssertionError):
    """A promise of the election does not hold in this schedule."""


def require(holds: bool, promise: str, now: float) -> None:
    if not holds:
        raise PromiseBroken(f"{promise}, at {now:.3f} s")


class Promises:
    def __init__(self, hosts: Collection[Host], network: Network, timing: Timing) -> None:
        self._hosts = hosts
        self._network = network
        self._timing = timing
        #: Since when all agree, in the calm.
        self.agreed: float | None = None

    def check_leaders(self, now: float) -> None:
        """No two act at the same time, if the datagrams between the two arrive in time."""
        leaders = [host for host in self._hosts if host.leads]
        if len(leaders) < 2:
            return
        acting = [host for host in leaders if host.machine and host.machine.acts(now)]
        for one, other in combinations(acting, 2):
            require(
                not self._reachable(one, other, now),
                f"hosts {one.number} and {other.number} act at the same time",
                now,
            )

    def _reachable(self, one: Host, other: Host, now: float) -> bool:
        """Whether all datagrams between the two arrived in time, for long enough."""
        broken = self._network.broken
        there = broken.get((one.number, other.number), -_NEVER)
        back = broken.get((other.number, one.number), -_NEVER)
        return now > max(there, back) + self._timing.conflict

    def check_agreement(self, now: float, latest: float) -> None:
        if not self._agree(now):
            self.agreed = None
            require(now <= latest, "the hosts do not agree in time", now)
        elif self.agreed is None:
            self.agreed = now

    def _agree(self, now: float) -> bool:
        live = [host for host in self._hosts if host.up and not host.left]
        highest = max(live, key=lambda host: host.number)
        for host in live:
            if host.machine is None or host.machine.leader != highest.number:
                return False
        return highest.machine is not None and highest.machine.acts(now)

    def check_suspicions(self, now: float) -> None:
        """After a long calm exactly the dead are suspected, but for those that had left."""
        up = {host.number: host for host in self._hosts if host.up and not host.left}
        machine = up[max(up)].machine
        assert machine is not None
        wrong = machine.suspected & up.keys()
        require(not wrong, f"live hosts are suspected: {sorted(wrong)}", now)
        dead = {host.number for host in self._hosts} - up.keys()
        missed = dead - machine.suspected - machine.left
        require(not missed, f"dead hosts are not suspected: {sorted(missed)}", now)
