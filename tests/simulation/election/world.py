"""A cluster to which its schedule happens, while its promises are checked at every event."""

import heapq
from collections.abc import Iterable
from typing import Any

from booksan.membership.member import Timing
from tests.simulation.election.cluster import Cluster, Link
from tests.simulation.election.host import Host
from tests.simulation.election.promises import PromiseBroken
from tests.simulation.election.schedule import Fault

_NEVER = float("inf")


class World(Cluster):
    def run(self) -> float:
        """Run to the end, and return the seconds from the calm until all agreed."""
        schedule = self.schedule
        for number, start in zip(schedule.hosts, schedule.starts, strict=True):
            self._at(start, self._start, self._hosts[number])
        for fault in schedule.faults:
            self._at(fault.at, self._strike, fault)
        self._at(schedule.calm, self._calm_down)
        latest = schedule.calm + self.timing.settling
        promises = self._promises
        while promises.agreed is None or self.now < promises.agreed + schedule.hold:
            self.now, _, call, args = heapq.heappop(self._events)
            call(*args)
            promises.check_leaders(self.now)
            if self._network.calm:
                promises.check_agreement(self.now, latest)
        if schedule.hold > self.timing.suspicion + 2 * self.timing.heartbeat:
            promises.check_suspicions(self.now)
        return promises.agreed - schedule.calm

    def _strike(self, fault: Fault) -> None:
        host = self._target(fault)
        back = self.now + fault.lasts
        if fault.kind in ("split", "one-way"):
            self._cut_links(self._links(fault), back)
        elif not host.up or host.left:
            return
        elif fault.kind in ("pause", "sleep"):
            self._pause(host, back, asleep=fault.kind == "sleep")
        elif fault.kind == "leave":
            self._leave(host, back)
        else:
            if fault.kind == "cut":
                host.actions_left = self._rng.randint(1, 4)
            else:
                self._crash(host)
            if back < self.schedule.calm:
                self._at(back, self._restart, host)

    def _target(self, fault: Fault) -> Host:
        if fault.host < 0:
            for host in self._hosts.values():
                if host.leads:
                    return host
        return self._hosts[self.schedule.hosts[fault.host]]

    def _restart(self, host: Host) -> None:
        if host.up:
            self._crash(host)
        self._start(host)

    def _links(self, fault: Fault) -> list[Link]:
        hosts = self.schedule.hosts
        side = {hosts[position] for position in fault.side}
        there = [(a, b) for a in hosts for b in hosts if a in side and b not in side]
        return there if fault.kind == "one-way" else there + [(b, a) for a, b in there]

    def _cut_links(self, links: list[Link], until: float) -> None:
        self._note(None, f"cut: {links}")
        self._network.cut(links)
        if until < self.schedule.calm:
            self._at(until, self._mend, links)

    def _mend(self, links: list[Link]) -> None:
        self._note(None, f"mended: {links}")
        self._network.mend(links)

    def _pause(self, host: Host, until: float, *, asleep: bool) -> None:
        if host.paused:
            return
        self._note(host, "sleeps" if asleep else "stands still")
        host.paused = True
        host.asleep = self.now if asleep else None
        host.turn_at = _NEVER
        self._at(min(until, self.schedule.calm), self._resume, host, host.epoch)

    def _resume(self, host: Host, epoch: int) -> None:
        if host.epoch != epoch or not host.paused:
            return
        self._note(host, "goes on")
        host.paused = False
        if host.asleep is not None and self.now < host.asleep + self.timing.lease:
            # It may go on as before, but what came meanwhile is lost. After a longer sleep it
            # begins anew, and needs no excuse.
            for other in self.schedule.hosts:
                self._network.break_promise((other, host.number), self.now)
        host.asleep = None
        self._catch_up(host)

    def _leave(self, host: Host, back: float) -> None:
        if host.machine is None or host.paused:
            return
        self._note(host, "leaves")
        host.left = True
        epoch = host.epoch
        self._perform(host, host.machine.leave(self.now))
        self._require(not host.leads, f"host {host.number} leaves and still leads")
        self._plan(host)
        self._at(self.now + 0.8, self._end, host, epoch)
        if back < self.schedule.calm:
            self._at(max(back, self.now + 0.9), self._start, host)

    def _end(self, host: Host, epoch: int) -> None:
        if host.epoch == epoch:
            self._crash(host)

    def _calm_down(self) -> None:
        self._note(None, "the network is whole, no loop stands still")
        # What is late at this moment counts as lost.
        self._network.calm_down()
        for host in self._hosts.values():
            host.actions_left = None
        if not any(host.up and not host.left for host in self._hosts.values()):
            self._restart(self._hosts[self.schedule.hosts[0]])


def run_seeds(seeds: Iterable[int], timing: Timing, **options: Any) -> float:
    """Run the schedules, and return the worst time until all agreed. PromiseBroken names a seed."""
    worst = 0.0
    for seed in seeds:
        try:
            worst = max(worst, World(seed, timing, **options).run())
        except PromiseBroken as broken:
            raise PromiseBroken(
                f"seed {seed}: {broken}. "
                f"Replay it: python -m tests.simulation.election --seeds {seed} --trace"
            ) from broken
    return worst
