"""A simulated cluster in which a plan of faults comes true."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from booksan.clock import Clock
from booksan.errors import TransportError
from booksan.gateway.uploads import Gateway
from booksan.spec import Spec
from booksan.transport.base import Outgoing
from booksan.worker.failures import is_environment
from booksan.worker.loop import Worker
from tests.simulation.faults.plan import DAY, Fault, Kind, Plan
from tests.simulation.memory import MemoryTransport
from tests.simulation.world import SECRET, Client, Killed, World

#: Seconds that go by before the workers look at a clock that has jumped.
LOOK = 30
#: Faults that come true later than they are due, in the hands of whom they hit.
ARMED = frozenset({Kind.KILL, Kind.LOSE, Kind.REFUSE, Kind.FULL, Kind.IOERR, Kind.DOUBT})
_CODES = {Kind.FULL: sqlite3.SQLITE_FULL, Kind.IOERR: sqlite3.SQLITE_IOERR}


class FaultyTransport(MemoryTransport):
    """Refuses and loses what it is told to."""

    def __init__(self, seed: int, applied: Counter[Kind]) -> None:
        super().__init__(seed)
        self.applied = applied
        self.refusals = 0
        #: How many messages from now each loss is away.
        self.losses: list[int] = []

    def publish(self, messages: Sequence[Outgoing]) -> None:
        for message in messages:
            if self.refusals and self.chance.random() < 0.5:
                self.refusals -= 1
                self.applied[Kind.REFUSE] += 1
                raise TransportError("the queues refuse it")
            self._publish_one(message)

    def _publish_one(self, message: Outgoing) -> None:
        self.losses = [away - 1 for away in self.losses]
        if -1 in self.losses:
            self.losses.remove(-1)
            self.lost.add(len(self.published))
            self.applied[Kind.LOSE] += 1
        super().publish([message])


class FaultyWorld(World):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.seed)
        self.plan = plan
        self.applied: Counter[Kind] = Counter()
        self.faulty = FaultyTransport(plan.seed, self.applied)
        self.transport = self.faulty
        self.gateway = Gateway(self.transport, (SECRET,))
        self._pending = list(plan.faults)
        #: What ends by itself: the step at which it does, and how.
        self._lasting: list[tuple[int, Callable[[], None]]] = []
        #: Kills that are due, with the passes of their points that are left.
        self._kills: list[tuple[Fault, int]] = []
        self._commits: list[Fault] = []
        #: Workers and clients that stand still, and clients whose next batch comes twice.
        self._still: Counter[str] = Counter()
        self._twice: Counter[str] = Counter()
        self._ahead: Counter[str] = Counter()
        self._clocks: dict[str, Clock] = {}
        self.clock_of = self._clock
        #: The worker whose commits these are; nobody between two of its turns.
        self._acting = ""
        #: Seconds that went by so that clocks were looked at.
        self.looked = 0.0

    def add_client(self, spec: Spec, batches: Mapping[str, Sequence[bytes]]) -> None:
        super().add_client(spec, batches)
        # A clock that was wrong from its first look is another thing than one that jumps.
        for name in self.workers:
            self._clock(name)

    # -- what comes true -----------------------------------------------------------------------

    def calm(self) -> None:
        """No more faults: what has begun ends, what is due is forgotten."""
        self._pending.clear()
        self._kills.clear()
        self._commits.clear()
        self.faulty.refusals = 0
        self.faulty.losses.clear()
        self._end_lasting(self.steps + 1_000_000)

    def _step(self) -> None:
        while self._pending and self._pending[0].at <= self.steps:
            self._begin(self._pending.pop(0))
        self._end_lasting(self.steps)
        super()._step()

    def _end_lasting(self, step: int) -> None:
        over = [one for one in self._lasting if one[0] <= step]
        self._lasting = [one for one in self._lasting if one[0] > step]
        for _, end in over:
            end()

    def _begin(self, fault: Fault) -> None:
        """A fault comes true, or waits in the hands of whom it hits."""
        getattr(self, f"_{fault.kind}")(fault)
        if fault.kind not in ARMED:
            self.applied[fault.kind] += 1

    def _kill(self, fault: Fault) -> None:
        self._kills.append((fault, fault.size))

    def _hang(self, fault: Fault) -> None:
        self._stand_still(fault.whom, fault.size)

    _pause = _hang

    def _lose(self, fault: Fault) -> None:
        self.faulty.losses.append(fault.size % 20)

    def _repeat(self, fault: Fault) -> None:
        if self.transport.published:
            number = fault.size % len(self.transport.published)
            MemoryTransport.publish(self.transport, [self.transport.published[number]])

    def _delay(self, fault: Fault) -> None:
        self.transport.blocked.add(fault.whom)
        self._last(fault.size, lambda: self.transport.blocked.discard(fault.whom))

    def _refuse(self, fault: Fault) -> None:
        self.faulty.refusals += fault.size

    def _full(self, fault: Fault) -> None:
        self._commits += [fault] * fault.size

    _ioerr = _doubt = _full

    def _forget(self, fault: Fault) -> None:
        """The worker is killed and comes back on an empty disk."""
        worker = self.workers[fault.whom]
        for view in self.views.values():
            view.close()
        if worker is not None:
            self._bury(fault.whom, worker)
        stage, _, shard = fault.whom.rpartition(".")
        for path in self.root.rglob(f"{stage}-{shard}.*"):
            path.unlink()

    def _jump(self, fault: Fault) -> None:
        self._ahead[fault.whom] += fault.size * DAY
        self._look(fault.whom)
        self._last(40, lambda: self._jump_back(fault))

    def _jump_back(self, fault: Fault) -> None:
        self._ahead[fault.whom] -= fault.size * DAY
        self._look(fault.whom)

    def _restart(self, fault: Fault) -> None:
        client = self.clients[fault.whom]
        client.sent, client.ended = set(), False

    def _gateway(self, fault: Fault) -> None:
        self._twice[fault.whom] += 1

    def _stand_still(self, whom: str, steps: int) -> None:
        self._still[whom] += 1
        self._last(steps, lambda: self._still.subtract([whom]))

    def _last(self, steps: int, end: Callable[[], None]) -> None:
        self._lasting.append((self.steps + steps, end))

    # -- whom it hits --------------------------------------------------------------------------

    def _crash(self, name: str, point: str) -> None:
        super()._crash(name, point)
        passed = [one for one, _ in self._kills if (one.whom, one.point) == (name, point)]
        self._kills = [(one, left - (one in passed)) for one, left in self._kills]
        over = [one for one, left in self._kills if left <= 0]
        if over:
            self._kills = [(one, left) for one, left in self._kills if left > 0]
            self.applied[Kind.KILL] += len(over)
            self._stand_still(name, max(one.away for one in over))
            raise Killed

    def commit(self, commit: Callable[[], object]) -> object:
        """What becomes of a commit of the worker that is acting."""
        due = next((one for one in self._commits if one.whom == self._acting), None)
        if due is None:
            return commit()
        self._commits.remove(due)
        self.applied[due.kind] += 1
        self._stand_still(due.whom, due.away)
        if due.kind is Kind.DOUBT:
            commit()
        error = sqlite3.OperationalError(f"simulated: {due.kind}")
        error.sqlite_errorcode = _CODES.get(due.kind, sqlite3.SQLITE_IOERR)
        raise error

    def _clock(self, name: str) -> Clock:
        """One for all lives of a worker: what is believed is kept on disk."""
        if name not in self._clocks:
            self._clocks[name] = Clock(
                wall=lambda: self.now + self._ahead[name],
                steady=lambda: self.steady,
                boot="simulated",
            )
        return self._clocks[name]

    def _look(self, name: str) -> None:
        """The worker looks after what is due by its clock."""
        self.sleep(LOOK)
        self.looked += LOOK
        worker = self._life(name)
        if worker is not None:
            self._outlive(name, worker, worker.handler.tick)

    def _work(self, name: str) -> None:
        if self._still[name] > 0:
            # Time goes by also where there is nobody else to wait for.
            self.steps += 1
            self._end_lasting(self.steps)
            return
        worker = self._life(name)
        if worker is not None:
            self._outlive(name, worker, lambda: worker.step(0))

    def _outlive(self, name: str, worker: Worker, act: Callable[[], object]) -> None:
        """As a worker's process does: it dies of a kill, and begins anew after other trouble."""
        self._acting = name
        try:
            act()
        except Killed:
            self._bury(name, worker)
        except Exception as error:
            if not is_environment(error):
                raise
            self.unsuspected.add(name)
            self._lay_down(name, worker)
        finally:
            self._acting = ""

    def _life(self, name: str) -> Worker | None:
        self._acting = name
        try:
            return super()._life(name)
        except Exception as error:
            if not is_environment(error):
                raise
            self.unsuspected.add(name)
            return None
        finally:
            self._acting = ""

    def _act(self, client: Client) -> None:
        """One that is refused tries again later."""
        if self._still[client.spec.client] > 0:
            return
        try:
            super()._act(client)
        except TransportError:
            return

    def put(self, ticket: str, source: str, number: int, data: bytes, permit: str | None) -> None:
        super().put(ticket, source, number, data, permit)
        name = self._admitted(ticket, source, permit).client
        if self._twice[name] > 0:
            self._twice[name] -= 1
            super().put(ticket, source, number, data, permit)

    def tick(self) -> None:
        for name in self.workers:
            worker = self._life(name)
            if worker is not None:
                self._outlive(name, worker, worker.handler.tick)
        self._end_lasting(self.steps + 1_000_000)
        self.drain()

    def _step_while_it_moves(self) -> None:
        super()._step_while_it_moves()
        while self._lasting:
            self._step()
            super()._step_while_it_moves()

    def _traces(self) -> list[object]:
        """Whoever was refused tries again."""
        return [*super()._traces(), self.applied.total()]

    def _heal(self, client: Client) -> None:
        """As the client's command does: what its home has lost is begun anew."""
        name = client.spec.client
        try:
            if self.views[name].status() is None and (client.sent or client.source):
                self._begin_anew(client)
            else:
                super()._heal(client)
        except TransportError:
            return

    def _begin_anew(self, client: Client) -> None:
        spec = replace(client.spec, generation=client.spec.generation + 1)
        self.views[spec.client].close()
        self.add_client(spec, client.batches)


class _Disk(sqlite3.Connection):
    """Fails commits when the world says so."""

    world: FaultyWorld

    def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
        run = super().execute
        if sql == "COMMIT":
            self.world.commit(lambda: run(sql))
            return self.cursor()
        return run(sql, *more)


@contextmanager
def failing_disk(world: FaultyWorld) -> Iterator[None]:
    """All databases that are opened here are on a disk that can fail."""
    disk = type("Disk", (_Disk,), {"world": world})
    connect = sqlite3.connect

    def on_disk(*words: Any, **more: Any) -> sqlite3.Connection:
        return connect(*words, factory=disk, **more)

    with patch.object(sqlite3, "connect", on_disk):
        yield
