"""The loop of `booksan chaos`: when to strike, whom, who is back, and the report of it."""

import json
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO

from rich.console import Console

from booksan.chaos.kinds import WHOLE_HOSTS, TargetKind
from booksan.chaos.targets import Strike, Victim, candidates
from booksan.chaos.view import ClientEnd, ClientVerdict, HostView, View, ask_cluster
from booksan.cluster.processes import ProcessId
from booksan.cluster.registry import ask_gateway
from booksan_common.terminal import Column, FittedTable

# What happened: lines as it goes, a log for programs, and the sum of it all.

KILL, PAUSE, CONTINUE, BACK, LATE = "kill", "pause", "continue", "back", "late"


class Report:
    """Tells of each event once, and keeps what the summary needs."""

    def __init__(self, say: Callable[[str], None], log: Path | None) -> None:
        self._say = say
        self._log: TextIO | None = log.open("a", encoding="utf-8") if log else None
        self.strikes: list[Strike] = []

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def struck(self, strike: Strike) -> None:
        self.strikes.append(strike)
        pids = [process.pid for process in strike.processes]
        event = PAUSE if strike.paused else KILL
        self._tell(event, strike, f"pid {', '.join(map(str, pids))}", pids=pids)

    def continued(self, strike: Strike) -> None:
        self._tell(CONTINUE, strike, "")

    def back(self, strike: Strike) -> None:
        took = round(strike.took or 0.0, 3)
        words = f"after {took:.2f} s" + (f", pid {strike.new_pid}" if strike.new_pid else "")
        self._tell(BACK, strike, words, seconds=took, pid=strike.new_pid)

    def late(self, strike: Strike, seconds: float) -> None:
        self._tell(LATE, strike, f"not back after {seconds:.0f} s", seconds=round(seconds, 3))

    def _tell(self, event: str, strike: Strike, words: str, **more: Any) -> None:
        now = time.time()
        stamp = time.strftime("%H:%M:%S", time.localtime(now))
        moment = f"{stamp}.{int(now * 1000) % 1000:03d}"
        self._say(f"{moment} {event:<8} {strike.kind:<10} {strike.name} {words}")
        if self._log is not None:
            line = {"time": round(now, 3), "event": event, "kind": strike.kind, "name": strike.name}
            self._log.write(json.dumps(line | {"host": strike.host} | more) + "\n")
            self._log.flush()


def summary(strikes: Iterable[Strike], seed: int, seconds: float) -> dict[str, Any]:
    """As `--json` prints it."""
    strikes = list(strikes)
    rows = {kind: _row([one for one in strikes if one.kind is kind]) for kind in TargetKind}
    missing = [one for one in strikes if one.took is None]
    return {
        "seed": seed,
        "seconds": round(seconds, 3),
        "kills": sum(not one.paused for one in strikes),
        "pauses": sum(one.paused for one in strikes),
        "kinds": {str(kind): row for kind, row in rows.items() if row["kills"] + row["pauses"]},
        "late": sum(one.late for one in strikes),
        "not_back": [{"kind": str(one.kind), "name": one.name} for one in missing],
    }


def _row(strikes: list[Strike]) -> dict[str, Any]:
    took = [one.took for one in strikes if one.took is not None]
    return {
        "kills": sum(not one.paused for one in strikes),
        "pauses": sum(one.paused for one in strikes),
        "median": round(statistics.median(took), 3) if took else None,
        "worst": round(max(took), 3) if took else None,
        "not_back": sum(one.took is None for one in strikes),
    }


def show_summary(console: Console, found: dict[str, Any]) -> None:
    table = FittedTable(
        Column("kind"),
        Column("kills", 1, right=True),
        Column("pauses", 4, right=True),
        Column("back: median", 3, right=True),
        Column("worst", 2, right=True),
        Column("not back", right=True),
    )
    for kind, row in found["kinds"].items():
        counts = (str(row["kills"]), str(row["pauses"]))
        table.add_row(
            kind, *counts, _seconds(row["median"]), _seconds(row["worst"]), str(row["not_back"])
        )
    console.print(table)
    console.print(
        f"{found['kills']} kills, {found['pauses']} pauses in {found['seconds']:.0f} s, "
        f"seed {found['seed']}",
        highlight=False,
    )
    for one in found["not_back"]:
        console.print(f"not back: {one['kind']} {one['name']}", highlight=False, soft_wrap=True)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


# When each kind is hit, from a seed. Time in, decision out.
#
# Each kind has a chance of its own, so that its gaps are the same whatever other kinds there are.
# A strike that finds nobody to hit stays due: it comes as soon as somebody is back.

#: A gap is between these times the cadence: moments that nobody can foresee, about as often.
JITTER = (0.5, 1.5)


class Schedule:
    def __init__(self, seed: int, every: Mapping[TargetKind, float], now: float) -> None:
        self._every = dict(every)
        self._gaps = {kind: random.Random(f"{seed}/gap/{kind}") for kind in every}
        self._choices = {kind: random.Random(f"{seed}/choice/{kind}") for kind in every}
        self._due = {kind: now + self._gap(kind) for kind in every}

    def due(self, now: float) -> list[TargetKind]:
        """The kinds whose moment has come, the one that waits longest first."""
        waiting = [kind for kind, moment in self._due.items() if moment <= now]
        return sorted(waiting, key=lambda kind: self._due[kind])

    def struck(self, kind: TargetKind, now: float) -> None:
        self._due[kind] = now + self._gap(kind)

    def next_due(self, now: float) -> float:
        """The next moment to come; those that wait for a victim are past already."""
        return min((moment for moment in self._due.values() if moment > now), default=float("inf"))

    def chance(self, kind: TargetKind) -> random.Random:
        """For what else has to be decided about a strike of this kind."""
        return self._choices[kind]

    def _gap(self, kind: TargetKind) -> float:
        return self._every[kind] * self._gaps[kind].uniform(*JITTER)


# Questions that may take seconds, asked beside the loop.

#: Seconds between two questions of the same kind.
_AGAIN = 0.1
_THREADS = 4


@dataclass
class _Probe:
    asked: float
    future: "Future[Any]"


class Probes:
    """The last answer to each question, and when it was asked."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="probe")
        self._running: dict[Hashable, _Probe] = {}
        self._answers: dict[Hashable, tuple[float, Any]] = {}

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def ask(self, key: Hashable, question: Callable[[], Any], every: float = _AGAIN) -> None:
        """Ask, unless that is under way or was done just now."""
        now = time.monotonic()
        running = self._running.get(key)
        if running is not None:
            if not running.future.done():
                return
            self._answers[key] = (running.asked, running.future.result())
            del self._running[key]
        asked = running.asked if running is not None else self.asked(key)
        if asked is None or now >= asked + every:
            self._running[key] = _Probe(now, self._pool.submit(question))

    def asked(self, key: Hashable) -> float | None:
        """When the last answered question was asked."""
        found = self._answers.get(key)
        return found[0] if found else None

    def answer(self, key: Hashable) -> Any:
        found = self._answers.get(key)
        return found[1] if found else None


# The loop: look at the cluster, hit whose moment has come, see who is back.

#: Seconds between two questions whether a client is done.
_ASK_CLIENT = 0.5
_ASK_GATEWAY = frozenset({TargetKind.GATEWAY, TargetKind.BROKER, *WHOLE_HOSTS})


@dataclass(frozen=True)
class ChaosOptions:
    every: Mapping[TargetKind, float]
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
        self._open: list[Strike] = []
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
            for strike in self._open:
                self._continue(strike)
            self._probes.close()

    @property
    def _needs_clients(self) -> bool:
        return bool(self._ends) or TargetKind.CLIENT in self._options.every

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
        return end.reached(word if isinstance(word, ClientVerdict) else None, elapsed)

    def _is_done(self, view: View) -> bool:
        """Everything is back, or there is no use in waiting for it."""
        waiting = [strike for strike in self._open if not strike.late]
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
        strike = Strike(
            victim.kind, victim.name, victim.host, victim.processes, time.time(), now, until
        )
        # Noted first: what is stopped has to be continued whatever happens.
        self._open.append(strike)
        self._looker.hit(victim.processes, signal.SIGSTOP if pause else signal.SIGKILL)
        self._report.struck(strike)

    def _continue(self, strike: Strike) -> None:
        if strike.held:
            self._looker.hit(strike.processes, signal.SIGCONT)
            strike.continued(time.monotonic())
            self._report.continued(strike)

    # -- returns ---------------------------------------------------------------------------

    def _heal(self, view: View) -> None:
        self._ask_gateways(view)
        for strike in list(self._open):
            if strike.stopped_until is not None and strike.stopped_until <= time.monotonic():
                self._continue(strike)
            now = time.monotonic()
            others = [one for one in self._open if one is not strike]
            if strike.is_back(view, self._healthy, others):
                strike.took = now - strike.since
                self._open.remove(strike)
                self._report.back(strike)
            elif (
                not strike.held and not strike.late and now - strike.since > self._options.patience
            ):
                strike.late = True
                self._report.late(strike, now - strike.since)

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
