"""The simulated cluster of `tests/simulation`, on a disk: real spool, real databases, all synced.

What was confirmed to a client is marked in the disk's log. After a cut a new world begins on what
is left, with a client that has forgotten nothing and never sends again what was confirmed: it was
another machine. Time stands still, so nothing is asked for again: what is lost stays lost.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from booksan.clock import Clock
from booksan.gateway.uploads import Gateway
from booksan.home import HomeView
from booksan.shards import queue_name
from booksan.spec import Spec
from booksan.state.shard import ShardStore
from booksan.transport.base import Outgoing
from booksan.transport.spool import Spool
from booksan.worker.failures import is_environment
from booksan.worker.loop import Worker
from booksan.worker.shard import Shard
from tests.disk.disk import mark
from tests.simulation.world import SECRET, SETTINGS, Client, World
from tests.support.data import Sample, shards_of

CLIENT = "one"
#: Of clients and workers: several times what a run of these samples needs.
STEPS = 3_000
#: Of them in which nothing waited and nothing moved.
IDLE_STEPS = 40
#: How often anything is tried on a disk that fails.
TRIES = 100
T = TypeVar("T")


class Lost(AssertionError):
    """Something that the client was told is not so."""


class Hung(AssertionError):
    """Messages go round and round."""


class DiskSpool(Spool):
    """With the simulation's way to ask what waits."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._queues = root / "queues"
        #: As long as the simulation's; only its length tells.
        self.published: list[Outgoing] = []

    def publish(self, messages: Sequence[Outgoing]) -> None:
        super().publish(messages)
        self.published += messages

    def waiting(self) -> list[str]:
        return [each.name for each in sorted(self._queues.iterdir()) if self._has(each.name)]

    def _has(self, queue: str) -> bool:
        return self.depth(queue).messages > 0


class DiskWorld(World):
    """With one client."""

    def __init__(self, root: Path, sample: Sample, seed: int, marks: Path | None = None) -> None:
        super().__init__(seed)
        self.root.rmdir()
        self.root = root
        self.transport = DiskSpool(root)  # type: ignore[assignment]
        self.gateway = Gateway(self.transport, (SECRET,))
        self.sample = sample
        self.spec = sample.spec(CLIENT, shards_of(sample.dataset, 1))
        self.clock_of = lambda name: Clock(
            wall=lambda: self.now, steady=lambda: self.steady, boot="simulated"
        )
        self.now, self.steady = 1_800_000_000.0, 1000.0
        self.see(self.spec)
        #: What the disk refused.
        self.troubles: list[Exception] = []
        self.clients = {CLIENT: Client(self.spec, sample.batches)}
        self.released = False
        #: What the client has been told; its answers, once it has fetched them.
        self._marks = marks
        self.fetched: dict[str, bytes] | None = None

    def see(self, spec: Spec) -> None:
        """The workers and the view of a client."""
        for stage, count in spec.shards.items():
            for shard in range(count):
                self.workers.setdefault(queue_name(stage, shard), None)
        self.views[spec.client] = HomeView(self.root, spec.client, spec.home)

    def run(self) -> None:
        """Until the client has its answers, or nothing has moved for long."""
        idle = 0
        for _ in range(STEPS):
            if self.patiently(lambda: self._done(self.clients[CLIENT])):
                return
            before = self._traces()
            self._step()
            idle = 0 if self._waiting() or self._traces() != before else idle + 1
            if idle > IDLE_STEPS:
                break
        waiting = self.transport.waiting()
        raise (Hung if waiting else Lost)(f"no end in sight; waiting: {waiting}")

    def whole_life(self, known: Iterable[list[Any]] = ()) -> dict[str, bytes]:
        """From wherever the client is to the deletion of all that was kept of it."""
        self.remember(known)
        # As a host does: readers leave it to workers to mend what a cut left of a database.
        for name in self.workers:
            self._life(name)
        if self.fetched is None:
            self.run()
            reason = self.patiently(lambda: self.failure(CLIENT))
            if reason is not None:
                raise Lost(f"the run failed: {reason}")
            self.fetched = self.patiently(lambda: self.answers(CLIENT))
            rejected = self.patiently(
                lambda: {s: self.rejected(CLIENT, s) for s in self.sample.batches}
            )
            assert {s: [n for n, _ in found] for s, found in rejected.items()} == dict(
                self.sample.rejected
            )
            self._mark("fetched", {name: text.decode() for name, text in self.fetched.items()})
        if not self.released:
            if self.patiently(self.views[CLIENT].status) is not None:
                self.patiently(lambda: self.release(CLIENT))
            self._mark("released")
        self.drain()
        for view in self.views.values():
            view.close()
        left = [path for path in (self.root / "clients").glob("*/*") if path.is_file()]
        assert not left, f"left behind: {left}"
        return self.fetched

    def remember(self, known: Iterable[list[Any]]) -> None:
        """What the client was told before the cut."""
        client, begun = self.clients[CLIENT], False
        for what, *words in known:
            begun = begun or what == "created"
            if what == "put":
                source, number = words
                self._go_to(client, source)
                client.sent.add(number)
            elif what == "end":
                self._go_to(client, words[0])
                client.ended = True
            elif what == "fetched":
                self.fetched = {name: text.encode() for name, text in words[0].items()}
            elif what == "released":
                self.released = True
        if client.ended and len(client.sent) == len(client.batches[client.sources[client.source]]):
            client.source, client.sent, client.ended = client.source + 1, set(), False
        if not begun:
            self.patiently(lambda: self.gateway.create(self.spec))
            self._mark("created")

    # -- a disk that fails ---------------------------------------------------------------------

    def patiently(self, work: Callable[[], T]) -> T:
        """As clients and gateways do it: what the machine could not do is tried again."""
        for _ in range(TRIES):
            try:
                return work()
            except Exception as error:
                if not isinstance(error, sqlite3.Error) and not is_environment(error):
                    raise
                self.troubles.append(error)
                # Every request is read with a view of its own.
                for view in self.views.values():
                    view.close()
        raise Hung(f"in vain for {TRIES} times: {self.troubles[-1]}")

    def _act(self, client: Client) -> None:
        self.patiently(lambda: super(DiskWorld, self)._act(client))

    def _work(self, name: str) -> None:
        """What raises in a worker ends its life, and its supervisor or itself begins another."""
        worker = self._life(name)
        if worker is None:
            return
        try:
            worker.step(0)
        except Exception as error:
            self.troubles.append(error)
            if len(self.troubles) > TRIES:
                raise Hung(f"{name} dies again and again: {error}") from error
            self._end(name, worker)

    def _end(self, name: str, worker: Worker) -> None:
        for close in (worker.abandon, worker.store.close):
            with suppress(sqlite3.Error, OSError):
                close()
        self.workers[name] = None

    def _go_to(self, client: Client, source: str) -> None:
        if client.source != client.sources.index(source):
            client.source, client.sent, client.ended = client.sources.index(source), set(), False

    def put(self, ticket: str, source: str, number: int, data: bytes, permit: str | None) -> None:
        super().put(ticket, source, number, data, permit)
        self._mark("put", source, number)

    def end(self, ticket: str, source: str, batches: int, permit: str | None) -> None:
        super().end(ticket, source, batches, permit)
        self._mark("end", source)

    def _mark(self, *words: object) -> None:
        if self._marks is not None:
            mark(self._marks, *json.loads(json.dumps(words)))

    def close(self) -> None:
        for worker in self.workers.values():
            if worker is not None:
                worker.abandon()
                worker.store.close()
        for view in self.views.values():
            view.close()
        self.transport.close()

    def _life(self, name: str) -> Worker | None:
        return self.patiently(lambda: self._alive(name))

    def _alive(self, name: str) -> Worker:
        worker = self.workers[name]
        if worker is None:
            stage, _, number = name.rpartition(".")
            store = ShardStore(self.root, stage, int(number))
            try:
                shard = Shard(
                    stage,
                    int(number),
                    root=self.root,
                    transport=self.transport,
                    store=store,
                    secret=SECRET,
                    settings=replace(SETTINGS, synchronous="FULL"),
                    clock=self.clock_of(name),
                )
                worker = Worker(shard)
            except BaseException:
                store.close()
                raise
            try:
                worker.resume()
            except BaseException:
                self._end(name, worker)
                raise
            self.workers[name] = worker
        return worker
