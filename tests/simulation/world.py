"""The simulated cluster: workers that die at named points, and a client that drives them."""

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from booksan.clock import Clock
from booksan.datasets import dataset_named
from booksan.gateway.progress import local_progress, resend_of, united
from booksan.gateway.uploads import Gateway
from booksan.home import HomeView
from booksan.shards import queue_name
from booksan.spec import HOME, Spec
from booksan.state.shard import ShardStore
from booksan.tickets import check_permit, open_ticket
from booksan.worker.loop import Worker
from booksan.worker.shard import Settings, Shard
from tests.simulation.memory import MemoryTransport
from tests.support.data import csv_bytes

SECRET = b"simulated"
SETTINGS = Settings(max_messages=4, publish_chunk=1, piece_rows=2, synchronous="OFF")
#: A memory disk where there is one: thousands of runs make millions of small writes.
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Killed(BaseException):
    """What SIGKILL is to a process: nothing catches it."""


@dataclass(frozen=True, order=True)
class CrashAt:
    worker: str
    point: str
    nth: int


@dataclass
class Client:
    """A client with its batches, in the order in which the simulation sends them."""

    spec: Spec
    batches: Mapping[str, Sequence[bytes]]
    source: int = 0
    sent: set[int] = field(default_factory=set)
    ended: bool = False

    @property
    def sources(self) -> list[str]:
        return list(dataset_named(self.spec.dataset).source)


class World:
    def __init__(
        self, seed: int, crashes: Collection[CrashAt] = (), *, repeats: float = 0.0
    ) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="booksan-world-", dir=SCRATCH))
        self.chance = random.Random(seed)
        self.transport = MemoryTransport(seed, repeats)
        self.gateway = Gateway(self.transport, (SECRET,))
        self.crashes = set(crashes)
        self.hits: Counter[tuple[str, str]] = Counter()
        self.deaths = 0
        #: How often something was done.
        self.steps = 0
        #: Workers whose last life ended for no fault of what they had in hand.
        self.unsuspected: set[str] = set()
        #: Wall time, and the time that no clock can change.
        self.now = time.time()
        self.steady = 1000.0
        clock = Clock(wall=lambda: self.now, steady=lambda: self.steady, boot="simulated")
        self.clock_of: Callable[[str], Clock] = lambda name: clock
        self.workers: dict[str, Worker | None] = {}
        self.clients: dict[str, Client] = {}
        self.views: dict[str, HomeView] = {}

    def close(self) -> None:
        for view in self.views.values():
            view.close()
        for worker in self.workers.values():
            if worker is not None:
                worker.abandon()
                worker.store.close()
        shutil.rmtree(self.root)

    def add_client(self, spec: Spec, batches: Mapping[str, Sequence[bytes]]) -> None:
        for stage, count in spec.shards.items():
            for shard in range(count):
                self.workers.setdefault(queue_name(stage, shard), None)
        self.clients[spec.client] = Client(spec, batches)
        self.views[spec.client] = HomeView(self.root, spec.client, spec.home)
        self.gateway.create(spec)

    def run(self) -> None:
        """Until every client has its answers."""
        for _ in range(100_000):
            if all(self._done(client) for client in self.clients.values()):
                return
            self._step()
        raise AssertionError(f"no end in sight; waiting: {self.transport.waiting()}")

    def drain(self) -> None:
        """Until no message is left and all workers have resumed what was due."""
        for _ in range(100_000):
            for name in self.workers:
                self._life(name)
            waiting = self._waiting()
            if not waiting:
                return
            self._work(self.chance.choice(waiting))
        raise AssertionError("messages go round and round")

    def run_healing(self, within: float) -> float:
        """Until every client has its answers, with clients that help; how long it stood still.

        What a client does: it begins again what its home does not know, and sends again what it is
        asked for. Time goes by only where nothing else moves.
        """
        begun = self.now
        while self.now - begun <= within:
            self._step_while_it_moves()
            if all(self._done(client) for client in self.clients.values()):
                return self.now - begun
            self.sleep(30)
            self.tick()
            for client in self.clients.values():
                self._heal(client)
        raise AssertionError(f"no end within {within} s: {self.stuck()}")

    def stuck(self) -> list[object]:
        return [
            (name, stream.stage, stream.shard, stream.sender, stream.batches, stream.of_batches)
            for name in self.clients
            for stream in united([local_progress(self.root, name, self.now)]).streams
            if not stream.complete
        ]

    def _step_while_it_moves(self) -> None:
        for _ in range(100_000):
            before = self._traces()
            self._step()
            if not self._waiting() and before == self._traces():
                return
        raise AssertionError("it moves for ever")

    def _traces(self) -> list[object]:
        """Another list whenever something has moved."""
        sent = [(c.source, len(c.sent), c.ended) for c in self.clients.values()]
        return [len(self.transport.published), self.transport.waiting(), sent]

    def _heal(self, client: Client) -> None:
        status = self.views[client.spec.client].status()
        if status is None:
            self.gateway.create(client.spec)
            return
        found = united([local_progress(self.root, client.spec.client, self.now)])
        waiting = self.transport.waiting()
        lost = resend_of(found, status, is_waiting=lambda queue: queue in waiting)
        for source, lacks in lost.items():
            sent = set(range(len(client.batches[source])))
            if client.source <= client.sources.index(source):
                sent = client.sent
            permit = status.permits[source]
            for first, last in lacks.ranges:
                for number in sent.intersection(range(first, last + 1)):
                    data = client.batches[source][number]
                    self.put(status.ticket, source, number, data, permit)
            if client.source > client.sources.index(source) or client.ended:
                # Also to a home that alone has not heard of the end.
                self.end(status.ticket, source, len(client.batches[source]), permit)

    def put(self, ticket: str, source: str, number: int, data: bytes, permit: str | None) -> None:
        """As over HTTP: only with the ticket of the home and its permit."""
        self.gateway.put(self._admitted(ticket, source, permit), source, number, data)

    def end(self, ticket: str, source: str, batches: int, permit: str | None) -> None:
        self.gateway.end(self._admitted(ticket, source, permit), source, batches)

    def _admitted(self, ticket: str, source: str, permit: str | None) -> Spec:
        spec = open_ticket((SECRET,), ticket)
        check_permit((SECRET,), spec, source, permit)
        return spec

    def sleep(self, seconds: float) -> None:
        """Time goes by."""
        self.now += seconds
        self.steady += seconds

    def tick(self) -> None:
        """All workers look after what is due by the clock; then all that follows."""
        for name in self.workers:
            worker = self._life(name)
            if worker is not None:
                worker.handler.tick()
        self.drain()

    def release(self, client: str, how: str = "done") -> None:
        status = self.views[client].status()
        assert status is not None
        self.views[client].close()
        self.gateway.release(status.ticket, how)

    def answers(self, client: str) -> dict[str, bytes]:
        view = self.views[client]
        return {
            query.name: csv_bytes(tuple(query.columns), view.answer(query))
            for query in dataset_named(self.clients[client].spec.dataset).queries
        }

    def rejected(self, client: str, source: str) -> list[tuple[int, str]]:
        return list(self.views[client].rejected_rows(source))

    def failure(self, client: str) -> str | None:
        status = self.views[client].status()
        return status.failed if status else None

    def _waiting(self) -> list[str]:
        """Workers with messages, or with work that needs none."""
        busy = [name for name, worker in self.workers.items() if worker and worker.is_busy]
        return [*self.transport.waiting(), *busy]

    # -- one step ------------------------------------------------------------------------------

    def _step(self) -> None:
        self.steps += 1
        waiting = self._waiting()
        active = [c for c in self.clients.values() if c.source < len(c.sources)]
        if active and (not waiting or self.chance.random() < 0.3):
            self._act(self.chance.choice(active))
        elif waiting:
            self._work(self.chance.choice(waiting))
        else:
            # A worker that died with nothing left in its queue still has work that is due.
            for name in self.workers:
                self._life(name)

    def _act(self, client: Client) -> None:
        """The client sends a batch, a repeat of an older one, or its end, in any order."""
        status = self.views[client.spec.client].status()
        source = client.sources[client.source]
        if status is not None and status.spec.generation < client.spec.generation:
            # What is open may be the database of the generation before, which is deleted.
            self.views[client.spec.client].close()
            status = None
        if status is None or source not in status.permits:
            for name in self.workers:
                self._life(name)
            return
        ticket, permit = status.ticket, status.permits[source]
        batches = client.batches[source]
        choices: list[int | None] = [n for n in range(len(batches)) if n not in client.sent]
        if not client.ended or self.chance.random() < 0.1:
            choices.append(None)
        if client.sent and self.chance.random() < 0.2:
            choices.append(self.chance.choice(sorted(client.sent)))
        number = self.chance.choice(choices)
        if number is None:
            self.end(ticket, source, len(batches), permit)
            client.ended = True
        else:
            self.put(ticket, source, number, batches[number], permit)
            client.sent.add(number)
        if client.ended and len(client.sent) == len(batches):
            client.source += 1
            client.sent, client.ended = set(), False

    def _work(self, name: str) -> None:
        worker = self._life(name)
        if worker is None:
            return
        try:
            worker.step(0)
        except Killed:
            self._bury(name, worker)

    def _life(self, name: str) -> Worker | None:
        """The worker, started and resumed if it is not alive; None if that killed it."""
        worker = self.workers[name]
        if worker is not None:
            return worker
        stage, _, shard = name.rpartition(".")
        store = ShardStore(self.root, stage, int(shard), synchronous="OFF")
        shard_of_world = Shard(
            stage,
            int(shard),
            root=self.root,
            transport=self.transport,
            store=store,
            secret=SECRET,
            settings=SETTINGS,
            crash=lambda point: self._crash(name, point),
            clock=self.clock_of(name),
        )
        worker = Worker(shard_of_world)
        try:
            worker.resume(suspicious=name not in self.unsuspected)
        except Killed:
            self._bury(name, worker)
            return None
        except BaseException:
            self._lay_down(name, worker)
            raise
        self.unsuspected.discard(name)
        self.workers[name] = worker
        return worker

    def _bury(self, name: str, worker: Worker) -> None:
        self.deaths += 1
        self._lay_down(name, worker)

    def _lay_down(self, name: str, worker: Worker) -> None:
        worker.abandon()
        worker.store.close()
        self.workers[name] = None

    def _crash(self, name: str, point: str) -> None:
        self.hits[name, point] += 1
        if CrashAt(name, point, self.hits[name, point]) in self.crashes:
            raise Killed

    def _done(self, client: Client) -> bool:
        status = self.views[client.spec.client].status()
        return status is not None and (status.done or status.failed is not None)


def home_queue(spec: Spec) -> str:
    return queue_name(HOME, spec.home)
