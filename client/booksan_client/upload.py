"""Sending one source: cut, journal, several batches in flight, the same batches after a restart."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from booksan_client.cutter import Batch, Cutter, Header, open_source
from booksan_client.errors import FileChanged
from booksan_client.journal import Entry, Journal, digest_of

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
