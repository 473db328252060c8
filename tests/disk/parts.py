"""What booksan keeps on disks, part by part: a short life of each, and what must be left of it.

Each part writes with the code of the product and marks what was confirmed by it. `check` is given
what was marked before a power cut, and what the cut left of the disk.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from booksan.cluster.prepare import known_queues
from booksan.gateway.config import read_gateway_config, write_gateway_config
from booksan.host.config import read_config
from booksan.host.handle import Host
from booksan.local.workspace import Identity, Pinned, Workspace, prepared_host
from booksan.membership.messages import Term
from booksan.membership.socket import Memory
from booksan.state.shard import ShardStore
from booksan.tickets import load_secret
from booksan.transport.base import Outgoing
from booksan.transport.spool import Spool
from booksan.worker.failures import keep_letter, letter_id, letter_path
from booksan_client.collect import OutDirectory
from booksan_client.state import ClientDirectory, ClientState, Entry, Journal
from booksan_common.files import sync_directory
from tests.disk.disk import mark

Marks = Sequence[list[Any]]


class Part(ABC):
    name: str

    @abstractmethod
    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        """Yields what is confirmed, as soon as it is."""

    @abstractmethod
    def check(self, place: Path, known: Marks) -> None:
        """Raises if something confirmed is lost, or if nobody could go on from here."""

    def record(self, disk: Path) -> None:
        place = prepared(disk / self.name)
        mark(disk, "prepared")
        for words in self.live(place):
            mark(disk, *words)


def prepared(directory: Path) -> Path:
    """As whoever made the disk ready: the system's installer, the user days ago."""
    directory.mkdir()
    sync_directory(directory.parent)
    return directory


class SpoolPart(Part):
    """Messages of two processes, one of them killed when it had only made directories."""

    name = "spool"

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        root = place / "new" / "spool"
        with Spool(root) as spool:
            spool.publish(self._messages("a", 0, 20))
            yield ("sent", "a", 0, 20)
            spool.publish([*self._messages("a", 20, 22), *self._messages("b", 0, 2)])
            yield ("sent", "a", 20, 22)
            yield ("sent", "b", 0, 2)
            with spool.consume("a") as consumer:
                for size in (4, 5):
                    taken = consumer.receive(size, 1 << 20, 0)
                    yield ("taking", "a", sorted(json.loads(each.body)[1] for each in taken))
                    consumer.acknowledge(taken)
        half = prepared(place / "half")
        (half / "queues" / "a" / "messages").mkdir(parents=True)
        (half / "tmp").mkdir()
        with Spool(half) as spool:
            spool.publish(self._messages("a", 0, 2))
            yield ("half", "a", 0, 2)

    @staticmethod
    def _messages(queue: str, first: int, last: int) -> list[Outgoing]:
        return [
            Outgoing(queue, json.dumps([queue, n, "x" * (n * 977 % 9000)]).encode())
            for n in range(first, last)
        ]

    def check(self, place: Path, known: Marks) -> None:
        for what, root in (("sent", place / "new" / "spool"), ("half", place / "half")):
            taken = [n for word, *rest in known if word == "taking" for n in rest[1]]
            for queue in ("a", "b"):
                found = self._found(root, queue)
                for word, of, *range_ in known:
                    if word == what and of == queue:
                        wanted = set(range(*range_)) - set(taken)
                        assert wanted <= found, f"lost {queue} {sorted(wanted - found)}"

    def _found(self, root: Path, queue: str) -> set[int]:
        with Spool(root) as spool, spool.consume(queue) as consumer:
            bodies = [each.body for each in consumer.receive(1000, 1 << 30, 0)]
        numbers = [json.loads(body)[1] for body in bodies]
        for number, body in zip(numbers, bodies, strict=True):
            assert body == self._messages(queue, number, number + 1)[0].body, "damaged"
        return set(numbers)


class JournalPart(Part):
    """Batches noted before they are sent, over several blocks of the disk."""

    name = "journal"
    batches = 90

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        (place / "books.journal").touch()
        with closing(self._open(place)) as journal:
            for number in range(self.batches):
                journal.begin(number, self._entry(number))
                yield ("noted", number)
                if number % 3:
                    journal.take(number)

    def check(self, place: Path, known: Marks) -> None:
        for _ in range(2):
            with closing(self._open(place)) as journal:
                wanted = [number for _, number in known]
                assert len(journal.entries) >= len(wanted), "lost a batch that was sent"
                for number, entry in enumerate(journal.entries):
                    assert entry == self._entry(number)
                assert journal.taken <= set(range(len(journal.entries)))
                # Whoever comes back goes on, and whoever comes after that as well.
                journal.begin(len(journal.entries), self._entry(len(journal.entries)))

    @staticmethod
    def _open(place: Path) -> Journal:
        return Journal(place / "books.journal", {"path": "x", "size": 1, "ends": "e"}, {"cut": 1})

    @staticmethod
    def _entry(number: int) -> Entry:
        return Entry(number * 10, number * 10 + 10, f"{number:032x}")


class ClientPart(Part):
    """A client's run: its directory, its secret, its generation."""

    name = "client"

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        with self._opened(place) as directory:
            state = ClientState("id", "books", {}, {}, secret="s", generation=0)
            directory.begin(state)
            yield ("saved", 0)
            for state.generation in (1, 2):
                directory.save(state)
                yield ("saved", state.generation)

    def check(self, place: Path, known: Marks) -> None:
        with self._opened(place) as directory:
            state = directory.load()
        if known:
            assert state is not None, "the client has forgotten its run"
            assert state.generation >= known[-1][1]

    @staticmethod
    @contextmanager
    def _opened(place: Path) -> Iterator[ClientDirectory]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(place / "state"))
            path = place / "state" / "booksan" / "clients" / "key"
            with closing(ClientDirectory.open(path)) as directory:
                yield directory


class ElectionPart(Part):
    name = "election"

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        memory = Memory(place)
        yield ("life", memory.boot)
        for counter in range(1, 4):
            memory.persist(Term(counter, counter % 2))
            yield ("term", counter)

    def check(self, place: Path, known: Marks) -> None:
        memory = Memory(place)
        for what, number in known:
            if what == "term":
                assert memory.term.counter >= number, "acted on a term that is forgotten"
            else:
                assert memory.boot > number, "two lives with one number"


class SecretPart(Part):
    """The secret of a host that nobody has given one."""

    name = "secret"

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        yield ("signed", load_secret(place).hex())

    def check(self, place: Path, known: Marks) -> None:
        secret = load_secret(place).hex()
        for _, signed in known:
            assert secret == signed, "tickets of before are worth nothing"


class HostPart(Part):
    """All that is written before a host says that it is ready, and what it learns later."""

    name = "host"

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        for shards in (1, 2):
            self._prepare(place, shards)
            yield ("ready", load_secret(place).hex(), shards)
        write_gateway_config(place, replace(read_gateway_config(place), max_clients=8))
        yield ("limited",)

    def check(self, place: Path, known: Marks) -> None:
        ready = [words for what, *words in known if what == "ready"]
        if ["limited"] in known:
            assert read_gateway_config(place).max_clients == 8, "a limit is forgotten"
        if ready:
            secret, shards = ready[-1]
            assert load_secret(place).hex() == secret, "tickets of before are worth nothing"
            assert known_queues(place), "the queues are forgotten"
            workers = read_config(place).workers
            assert len(workers) >= shards + 1
            assert read_gateway_config(place).host == "local"
            assert (place / "token").read_text()
        self._prepare(place, 2)

    @staticmethod
    def _prepare(place: Path, shards: int) -> Host:
        return prepared_host(place, {"results": shards}, 1000)


class OutPart(Part):
    """Answers of a run, then of another one."""

    name = "out"

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        for run in ("first", "second"):
            with closing(OutDirectory.open(place / "new" / "answers")) as out:
                yield ("begun", run)
                out.begin(run, "csv")
                for query in ("q1", "q2"):
                    with out.writing(f"{query}.csv", lambda: None) as pieces:
                        pieces.begin()(self._text(run, query))
                    yield ("written", run, query)

    def check(self, place: Path, known: Marks) -> None:
        path = place / "new" / "answers"
        last = known[-1][1] if known else None
        for word, *words in known:
            if word == "written" and words[0] == last:
                assert (path / f"{words[1]}.csv").read_bytes() == self._text(*words), "lost"
        with closing(OutDirectory.open(path)) as out:
            out.check(["q1", "q2"])
            out.begin("third", "csv")
        assert sorted(each.name for each in path.iterdir()) == [".booksan"], "left behind"

    @staticmethod
    def _text(run: str, query: str) -> bytes:
        return f"{run} {query}\n".encode() * 700


class LettersPart(Part):
    """Dead letters, and what a shard keeps: tombstones."""

    name = "letters"
    bodies = (b"poison" * 1000, b"other" * 10)

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        for shard in (0, 1):
            # Of another worker, which was killed before it could sync them.
            (place / "letters").mkdir(exist_ok=True)
            keep_letter(place, "q1", shard, self.bodies[shard], "why")
            yield ("letter", shard)
        (place / "shards").mkdir()
        with closing(ShardStore(place, "q1", 0)) as store:
            for client in ("one", "two"):
                store.leave_tombstone(client, "done", 2_000_000_000, [])
                yield ("gone", client)

    def check(self, place: Path, known: Marks) -> None:
        with closing(ShardStore(place, "q1", 0)) as store:
            for what, which in known:
                if what == "gone":
                    assert store.is_gone(which), "a client can come back"
                else:
                    body = self.bodies[which]
                    path = letter_path(place, "q1", which, letter_id(body))
                    assert path.read_bytes() == body, "lost a letter"
                    assert json.loads(path.with_suffix(".json").read_text())["error"] == "why"


class WorkspacePart(Part):
    """The directory of `booksan run`: the run that was begun, and that it is settled."""

    name = "workspace"

    def live(self, place: Path) -> Iterator[tuple[object, ...]]:
        with closing(self._open(place)) as workspace:
            pinned, _ = workspace.pinned(self._pinned("first"), 0)
            yield ("pinned", pinned.client)
            yield ("settling", pinned.client)
            workspace.settle(pinned)
            yield ("settled", pinned.client)
            workspace.finish()
        with closing(self._open(place)) as workspace:
            pinned, _ = workspace.pinned(self._pinned("second"), 0)
            yield ("pinned", pinned.client)

    def check(self, place: Path, known: Marks) -> None:
        with closing(self._open(place)) as workspace:
            found, resumed = workspace.pinned(self._pinned("third"), 0)
        if known:
            word, client = known[-1]
            goes_on = found.client == client
            assert goes_on == (word == "pinned") or word == "settling", "another run than before"
            assert resumed == (found.client != "third")

    @staticmethod
    def _pinned(client: str) -> Pinned:
        return Pinned(client, {"results": 1}, 2_000_000_000)

    @staticmethod
    def _open(place: Path) -> Workspace:
        return Workspace.open(place / "deep" / "data", Identity("books", 1, {}, {}))


PARTS: tuple[Part, ...] = (
    SpoolPart(), JournalPart(), ClientPart(), ElectionPart(), SecretPart(), HostPart(), OutPart(),
    LettersPart(), WorkspacePart(),
)  # fmt: skip
