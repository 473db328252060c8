"""The loop: look at the cluster, hit whose moment has come, see who is back."""

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from booksan.chaos.choice import Victim, candidates
from booksan.chaos.clients import ClientEnd, Word, ask_cluster
from booksan.chaos.kinds import WHOLE_HOSTS, Kind
from booksan.chaos.probes import Probes
from booksan.chaos.report import Report
from booksan.chaos.schedule import Schedule
from booksan.chaos.view import HostView, View
from booksan.chaos.wounds import Wound
from booksan.cluster.health import ask_gateway
from booksan.cluster.processes import ProcessId

#: Seconds between two questions whether a client is done.
_ASK_CLIENT = 0.5
_ASK_GATEWAY = frozenset({Kind.GATEWAY, Kind.BROKER, *WHOLE_HOSTS})


@dataclass(frozen=True)
class ChaosOptions:
    every: Mapping[Kind, float]
    seed: int
    #: Seconds; None: until the clients are done, or until it is told to stop.
    seconds: float | None = None
    until: tuple[str, ...] = ()
    #: The share of strikes that stop instead of kill, and for how many seconds.
    pause_share: float = 0.0
    pause_for: float = 3.0
    #: Seconds in which everything must be back.
    patience: float = 60.0
    mercy: bool = True


@dataclass
class Stop:
    """Set by signals: the first ends the strikes, the second the waiting for what is not back."""

    event: threading.Event = field(default_factory=threading.Event)
    requests: int = 0

    def __call__(self, _signum: int, _frame: object) -> None:
        self.requests += 1
        self.event.set()


class Looker(Protocol):
    """Sees the parts of a cluster, and can hit what it has seen."""

    @property
    def pace(self) -> tuple[float, float]:
        """Seconds between two looks: while something is to come back, and otherwise."""

    def look(self, *, clients: bool = False) -> View: ...

    def hit(self, processes: Sequence[ProcessId], signum: signal.Signals) -> None: ...


class Chaos:
    def __init__(
        self,
        looker: Looker,
        options: ChaosOptions,
        report: Report,
        stop: Stop,
        token_file: Path | None,
    ) -> None:
        """`token_file`: of an operator, who may ask for clients; None for the environment's."""
        self._options = options
        self._report = report
        self._stop = stop
        self._looker = looker
        self._token_file = token_file
        self._probes = Probes()
        self._began = time.monotonic()
        self._schedule = Schedule(options.seed, options.every, self._began)
        self._ends = [ClientEnd(id, options.patience) for id in options.until]
        self._open: list[Wound] = []
        self._striking = True

    def run(self) -> float:
        """Until the end of the strikes and of all that came back; the seconds that it took."""
        try:
            while True:
                view = self._looker.look(clients=self._needs_clients)
                self._heal(view)
                self._striking = self._striking and not self._is_over(view)
                if self._striking:
                    self._strike(view)
                elif self._is_done(view):
                    return time.monotonic() - self._began
                self._wait()
        finally:
            for wound in self._open:
                self._continue(wound)
            self._probes.close()

    @property
    def _needs_clients(self) -> bool:
        return bool(self._ends) or Kind.CLIENT in self._options.every

    def _wait(self) -> None:
        now = time.monotonic()
        most = self._looker.pace[0 if self._open else 1]
        due = self._schedule.next_due(now) - now if self._striking else most
        seconds = max(0.0, min(most, due))
        if self._striking:
            self._stop.event.wait(seconds)
        else:
            time.sleep(seconds)

    def _is_over(self, view: View) -> bool:
        """Whether no strike is to come any more."""
        elapsed = time.monotonic() - self._began
        if self._stop.requests or view.stopped:
            return True
        if self._options.seconds is not None and elapsed >= self._options.seconds:
            return True
        if not self._options.until:
            return False
        self._ends = [end for end in self._ends if not self._has_ended(end, view, elapsed)]
        return not self._ends

    def _has_ended(self, end: ClientEnd, view: View, elapsed: float) -> bool:
        if end.is_at_work(view.clients):
            return False
        gateways = [host.gateway for host in view.hosts if host.gateway]
        asked = ("client", end.id)
        self._probes.ask(
            asked, lambda: ask_cluster(end.id, gateways, self._token_file), _ASK_CLIENT
        )
        word = self._probes.answer(asked)
        return end.reached(word if isinstance(word, Word) else None, elapsed)

    def _is_done(self, view: View) -> bool:
        """Everything is back, or there is no use in waiting for it."""
        waiting = [wound for wound in self._open if not wound.late]
        return not waiting or view.stopped or self._stop.requests > 1

    # -- strikes ---------------------------------------------------------------------------

    def _strike(self, view: View) -> None:
        """One at a time: the next one has to see what this one did."""
        for kind in self._schedule.due(time.monotonic()):
            found = candidates(
                kind, view, self._open, mercy=self._options.mercy, clients=self._options.until
            )
            if found:
                chance = self._schedule.chance(kind)
                victim = chance.choice(found)
                self._hit(victim, pause=chance.random() < self._options.pause_share)
                self._schedule.struck(kind, time.monotonic())
                return

    def _hit(self, victim: Victim, *, pause: bool) -> None:
        now = time.monotonic()
        until = now + self._options.pause_for if pause else None
        wound = Wound(
            victim.kind, victim.name, victim.host, victim.processes, time.time(), now, until
        )
        # Noted first: what is stopped has to be continued whatever happens.
        self._open.append(wound)
        self._looker.hit(victim.processes, signal.SIGSTOP if pause else signal.SIGKILL)
        self._report.struck(wound)

    def _continue(self, wound: Wound) -> None:
        if wound.held:
            self._looker.hit(wound.processes, signal.SIGCONT)
            wound.continued(time.monotonic())
            self._report.continued(wound)

    # -- returns ---------------------------------------------------------------------------

    def _heal(self, view: View) -> None:
        self._ask_gateways(view)
        for wound in list(self._open):
            if wound.stopped_until is not None and wound.stopped_until <= time.monotonic():
                self._continue(wound)
            now = time.monotonic()
            others = [one for one in self._open if one is not wound]
            if wound.is_back(view, self._healthy, others):
                wound.took = now - wound.since
                self._open.remove(wound)
                self._report.back(wound)
            elif not wound.held and not wound.late and now - wound.since > self._options.patience:
                wound.late = True
                self._report.late(wound, now - wound.since)

    def _ask_gateways(self, view: View) -> None:
        asked = {one.host for one in self._open if one.kind in _ASK_GATEWAY and not one.held}
        for host in view.hosts:
            if host.has_gateway and (host.name in asked or None in asked):
                self._probes.ask(host.gateway, partial(_serves, host))

    def _healthy(self, url: str, since: float) -> bool:
        asked = self._probes.asked(url)
        return asked is not None and asked > since and self._probes.answer(url) is True


def _serves(host: HostView) -> bool:
    return ask_gateway(host.gateway, host.name) is None
