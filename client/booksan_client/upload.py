"""Sending one source, the same batches after a restart; and again what got lost."""

import gzip
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from concurrent.futures import wait as wait_for
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from booksan_client.api import ClientApi
from booksan_client.state import Entry, Journal, digest_of
from booksan_common.cutter import Batch, Cutter, Header, open_source
from booksan_common.errors import FileChanged, Interrupted
from booksan_common.shapes import Lack, Status

# Sending one source: cut, journal, several batches in flight, the same batches after a restart.

#: Batches sent at the same time: while one waits for the disk, another is being parsed.
IN_FLIGHT = 4
#: Seconds between two looks around while batches are on their way.
LOOK = 0.2

#: Sends batch `number`; returns when the other side has taken it.
Put = Callable[[int, bytes], object]


class Sent(NamedTuple):
    number: int
    end: int
    #: False if an earlier process had sent it already.
    new: bool


def upload(
    path: Path,
    header: Header,
    journal: Journal,
    put: Put,
    look: Callable[[], object],
    *,
    give_up: Callable[[], object] = lambda: None,
    delimiter: bytes = b",",
) -> Iterator[Sent]:
    """Sends all batches of the file that are not taken yet; tells of each when it is taken.

    `look` is called between batches and while all waits; it raises to end the upload. `give_up`
    is called when the upload ends early: from then on a `put` that waits must not wait any more.
    """
    first = journal.first_missing()
    start = header.end
    if first:
        start = journal.entries[first - 1].end
        yield Sent(first - 1, start, False)
    with open_source(path) as stream, ThreadPoolExecutor(IN_FLIGHT) as pool:
        stream.seek(start)
        cutter = Cutter(stream, start, delimiter=delimiter, **journal.cut)
        flying: dict[Future[object], Sent] = {}
        try:
            for number, batch in enumerate(cutter, first):
                # Only what is about to be sent counts as begun.
                if len(flying) >= IN_FLIGHT:
                    yield from _taken(flying, journal, look)
                journal.begin(number, Entry(batch.start, batch.end, digest_of(batch.data)))
                if number in journal.taken:
                    continue
                flying[pool.submit(put, number, batch.data)] = Sent(number, batch.end, True)
            while flying:
                yield from _taken(flying, journal, look)
        except BaseException:
            # Leaving the pool waits for the batches in flight, so they must hear of it before.
            give_up()
            raise
        finally:
            for future in flying:
                future.cancel()


def _taken(
    flying: dict[Future[object], Sent], journal: Journal, look: Callable[[], object]
) -> Iterator[Sent]:
    for sent in _landed(flying, look):
        journal.take(sent.number)
        yield sent


def _landed(flying: dict[Future[object], Sent], look: Callable[[], object]) -> Iterator[Sent]:
    done: set[Future[object]] = set()
    while not done:
        look()
        done, _ = wait(flying, LOOK, FIRST_COMPLETED)
    for future in done:
        sent = flying.pop(future)
        future.result()
        yield sent


def upload_again(
    path: Path,
    journal: Journal,
    numbers: Iterable[int],
    put: Put,
    look: Callable[[], object] = lambda: None,
    *,
    give_up: Callable[[], object] = lambda: None,
    delimiter: bytes = b",",
) -> int:
    """Sends batches that the other side has lost, from where the journal says they are."""
    known = [number for number in numbers if number < len(journal.entries)]
    flying: dict[Future[object], Sent] = {}
    with open_source(path) as stream, ThreadPoolExecutor(IN_FLIGHT) as pool:
        try:
            for number in known:
                start = journal.entries[number].start
                stream.seek(start)
                batch = next(Cutter(stream, start, delimiter=delimiter, **journal.cut))
                journal.begin(number, Entry(batch.start, batch.end, digest_of(batch.data)))
                if len(flying) >= IN_FLIGHT:
                    list(_landed(flying, look))
                flying[pool.submit(put, number, batch.data)] = Sent(number, batch.end, False)
            while flying:
                list(_landed(flying, look))
        except BaseException:
            give_up()
            raise
        finally:
            for future in flying:
                future.cancel()
    return len(known)


def compare(
    path: Path, journal: Journal, look: Callable[[], object], *, delimiter: bytes = b","
) -> None:
    """Cuts everything that was sent once more; FileChanged if a batch is not what it was."""
    entries = list(journal.entries)
    if not entries:
        return
    start = entries[0].start
    with open_source(path) as stream:
        stream.seek(start)
        cutter = Cutter(stream, start, delimiter=delimiter, **journal.cut)
        for number, entry in enumerate(entries):
            look()
            batch = next(cutter, Batch(0, 0, b""))
            if Entry(batch.start, batch.end, digest_of(batch.data)) != entry:
                raise FileChanged(path, f" (batch {number} is not what it was)")


# Sends again what got lost between the client and the stages: batches, and ends.
#
# A server names everything that some shard still lacks. One that does not is asked why the run
# stands still, and the first missing numbers stand there.

#: Seconds in which the same batch or end is sent again once at most: it may only be on its way.
AGAIN = 120.0
#: Seconds after which an end that the home does not show is sent again, though nobody asks.
END_SECONDS = 10.0


@dataclass(frozen=True)
class Part:
    """A source of the run: its file, and what of it was sent."""

    path: Path
    delimiter: bytes
    journal: Journal


def put_batch(api: ClientApi, source: str, number: int, data: bytes, compress: str) -> None:
    encoding = None
    if compress == "gzip":
        data, encoding = gzip.compress(data, compresslevel=1, mtime=0), "gzip"
    api.put(source, number, data, encoding=encoding)


class Healer:
    """Looks at statuses; one thread drives it. `look` is called meanwhile and raises to end it."""

    def __init__(
        self,
        api: ClientApi,
        parts: Mapping[str, Part],
        note: Callable[[str], object],
        look: Callable[[], object],
        compress: str = "none",
    ) -> None:
        self._api = api
        self._parts = parts
        self._note = note
        self._look = look
        self._compress = compress
        #: Batches that were sent again.
        self.resent = 0
        #: How many batches each source has whose end was sent, and when that may be sent again.
        self._lengths: dict[str, int] = {}
        self._end_due: dict[str, float] = {}
        #: When each batch may be sent again.
        self._due: dict[tuple[str, int], float] = {}

    def end(self, source: str, batches: int, *, pause: float = END_SECONDS) -> None:
        """Sends the end of a source, and sees to it that it arrives."""
        self._api.end(source, batches)
        self.expect(source, batches, pause=pause)

    def expect(self, source: str, batches: int, *, pause: float = END_SECONDS) -> None:
        """The end was sent: the home shall show it before long."""
        self._lengths[source] = batches
        self._end_due[source] = time.monotonic() + pause

    def heal(self, status: Status) -> None:
        """Everything that the status says is lacking, at once."""
        lacks = _lacks(status)
        for name, part in self._parts.items():
            lack = lacks.get(name, Lack())
            lost = name in self._lengths and status.source(name).of_batches is None
            if lack.end or lost:
                self._end_again(name)
            self._send_again(name, part, _numbers(lack, len(part.journal.entries)))

    def _end_again(self, name: str) -> None:
        due = self._end_due.get(name, math.inf)
        if time.monotonic() >= due:
            self.end(name, self._lengths[name], pause=AGAIN)
            self._note(f"sent the end of {name} again")

    def _send_again(self, name: str, part: Part, named: Iterable[int]) -> None:
        now = time.monotonic()
        # What was not taken yet is being sent anyway.
        numbers = [
            number
            for number in sorted(set(named))
            if number in part.journal.taken and self._due.get((name, number), -math.inf) <= now
        ]
        if not numbers:
            return
        lane = self._api.apart()
        with closing(lane.caller):
            count = upload_again(
                part.path,
                part.journal,
                numbers,
                lambda number, data: put_batch(lane, name, number, data, self._compress),
                self._look,
                give_up=lane.caller.close,
                delimiter=part.delimiter,
            )
        self._due |= dict.fromkeys(((name, number) for number in numbers), time.monotonic() + AGAIN)
        self.resent += count
        self._note(f"sent {count} missing batches of {name} again")


def _lacks(status: Status) -> Mapping[str, Lack]:
    if status.lacks is not None:
        return status.lacks
    if status.stall is None:
        return {}
    found = {}
    for name, source in status.sources.items():
        places = [one for one in status.stall.where if one.sender == f"gateway/{name}"]
        numbers = set(source.missing).union(*(one.missing for one in places))
        end = any(one.of_batches is None for one in places)
        if source.of_batches is not None:
            found[name] = Lack(tuple((number, number) for number in sorted(numbers)), end)
    return found


def _numbers(lack: Lack, known: int) -> Iterable[int]:
    """Of the batches that there are; a server may name whatever it likes."""
    return (
        number
        for first, last in lack.ranges
        for number in range(max(0, first), min(last + 1, known))
    )


# Whether a file whose times or inode differ still holds what was sent of it.


class Doubts:
    """Reads such files once more beside the upload; raises the InputError where it is looked for.

    Only what the journals knew at the start is read here: an upload compares the rest itself.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "compare")
        self._stopped = threading.Event()
        self._open: list[Future[None]] = []

    def about(self, part: Part) -> None:
        self._open.append(self._pool.submit(self._compare, part))

    def settled(self) -> bool:
        """Whether there is none left."""
        for future in [each for each in self._open if each.done()]:
            future.result()
            self._open.remove(future)
        return not self._open

    def settle(self, look: Callable[[], object]) -> None:
        """Waits until there is none left."""
        while not self.settled():
            look()
            wait_for(self._open, LOOK)

    def close(self) -> None:
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)

    def _compare(self, part: Part) -> None:
        compare(part.path, part.journal, self._check_stopped, delimiter=part.delimiter)

    def _check_stopped(self) -> None:
        if self._stopped.is_set():
            raise Interrupted
