"""Sends again what got lost between the client and the stages: batches, and ends.

A server names everything that some shard still lacks. One that does not is asked why the run
stands still, and the first missing numbers stand there.
"""

import gzip
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from booksan_client.api import ClientApi
from booksan_client.journal import Journal
from booksan_client.status import Lack, Status
from booksan_client.upload import upload_again

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
    if status.resend is not None:
        return status.resend
    if status.stalled is None:
        return {}
    found = {}
    for name, source in status.sources.items():
        places = [one for one in status.stalled.where if one["sender"] == f"gateway/{name}"]
        numbers = set(source.missing).union(*(one["missing"] for one in places))
        end = any(one["of_batches"] is None for one in places)
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
