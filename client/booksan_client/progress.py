"""How far a run is, in one number that only grows, and how long it may take yet."""

import math
import operator
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from booksan_common.shapes import StageStatus, Status
from booksan_common.terminal import duration

Clock = Callable[[], float]

#: Seconds over which a pace is measured; what was fast or slow before says nothing any more.
WINDOW = 30.0
#: Seconds between two marks of a pace.
MARK = 0.25
#: Seconds after which a pace is steady enough to tell the time that is left.
STEADY = 2.0
#: Seconds from which on a time that is left is none worth telling: a week.
NEVER = 7 * 24 * 3600.0
#: What is reached at most before the end: the last answers are made when all rows are in.
ALMOST = 0.99


class Pace:
    """How much a position grows in a second, from its first movement on."""

    def __init__(self, position: float, clock: Clock) -> None:
        self._clock = clock
        self._position = position
        self._marks: deque[tuple[float, float]] = deque()

    def move_to(self, position: float) -> None:
        if position == self._position:
            return
        self._position = position
        now = self._clock()
        if len(self._marks) > 1 and now - self._marks[-2][0] < MARK:
            self._marks.pop()
        self._marks.append((now, position))
        while len(self._marks) > 2 and now - self._marks[0][0] > WINDOW:
            self._marks.popleft()

    @property
    def seconds(self) -> float:
        """For how long it has been measured."""
        return self._clock() - self._marks[0][0] if self._marks else 0.0

    @property
    def per_second(self) -> float:
        return (self._position - self._marks[0][1]) / self.seconds if self.seconds else 0.0


@dataclass
class Upload:
    """One source on its way."""

    #: Bytes; None if the file is compressed.
    size: int | None
    pace: Pace
    position: int = 0
    batches: int = 0
    #: All of them, once the server knows the end.
    of_batches: int | None = None

    @property
    def fraction(self) -> float | None:
        if self.of_batches is not None:
            return 1.0
        return None if self.size is None else min(1.0, self.position / max(1, self.size))

    def expected(self, batch_size: float) -> float:
        """How many batches it will be; `batch_size` is that of all that were sent so far."""
        if self.of_batches is not None:
            return self.of_batches
        own = self.position / self.batches if self.batches else batch_size
        return max(self.batches, (self.size or 0) / own) if own else math.inf


class RunProgress:
    """Everything that is known of a run's way, from the client's side and the server's."""

    def __init__(self, sizes: Mapping[str, int | None], clock: Clock = time.monotonic) -> None:
        self._sizes = sizes
        self._clock = clock
        self._begun = clock()
        self.sent_before({})

    def sent_before(self, sent: Mapping[str, tuple[int, int]]) -> None:
        """Where this process begins, in bytes and batches; only what comes after is its pace."""
        self.uploads = {
            name: Upload(size, Pace(sent.get(name, (0, 0))[0], self._clock), *sent.get(name, ()))
            for name, size in self._sizes.items()
        }
        self.status: Status | None = None
        #: The latest that was said of stages: not every status has them.
        self.stages: Mapping[str, StageStatus] = {}
        self.paces: dict[str, Pace] = {}
        self._reached: float | None = None
        self._pace: Pace | None = None

    def sent(self, source: str, position: int, batches: int) -> None:
        """Batches land in any order."""
        upload = self.uploads[source]
        upload.position = max(upload.position, position)
        upload.batches = max(upload.batches, batches)
        upload.pace.move_to(upload.position)

    def take(self, status: Status) -> None:
        self.status = status
        for name, upload in self.uploads.items():
            upload.of_batches = status.source(name).of_batches
        for name, stage in status.stage.items():
            self.paces.setdefault(name, Pace(stage.bytes, self._clock)).move_to(stage.bytes)
        if status.stage or status.done:
            self.stages = status.stage or self.stages
            self._reach()

    @property
    def fraction(self) -> float | None:
        """Of the whole run; it never falls, and is 1 only at the end. None if it is not known."""
        return self._reached

    @property
    def seconds(self) -> float:
        return self._clock() - self._begun

    def seconds_left(self) -> float | None:
        """At the pace of the last half minute, if there is one."""
        if self._pace is None or self._reached is None or self._pace.seconds < STEADY:
            return None
        rate = self._pace.per_second
        left = (1 - self._reached) / rate if rate > 0 else math.inf
        return left if left < NEVER else None

    def _reach(self) -> None:
        found = self._found()
        if found is None:
            return
        self._reached = max(found, self._reached or 0.0)
        self._pace = self._pace or Pace(self._reached, self._clock)
        self._pace.move_to(self._reached)

    def _found(self) -> float | None:
        """A run is as far as the slowest of those that are at work on it."""
        if self.status is not None and self.status.done:
            return 1.0
        parts = [each.fraction for each in self.uploads.values()]
        if None in parts:
            return None
        shares = [self._share(stage) for stage in self.stages.values()]
        return min(ALMOST, self._uploaded(), *(share for share in shares if share is not None))

    def _uploaded(self) -> float:
        """Of all bytes of all files."""
        sizes = [each.size or each.position for each in self.uploads.values()]
        parts = [each.fraction or 0.0 for each in self.uploads.values()]
        whole = sum(sizes)
        return sum(map(operator.mul, sizes, parts)) / whole if whole else 1.0

    def _share(self, stage: StageStatus) -> float | None:
        """Of the whole work of a stage; None if nobody can know that.

        While files are being sent, that of a stage which reads nothing else is estimated.
        """
        if (known := stage.fraction) is not None:
            return known
        if not stage.inputs or not all(name in self.uploads for name in stage.inputs):
            return None
        batches = sum(each.batches for each in self.uploads.values())
        size = sum(each.position for each in self.uploads.values()) / max(1, batches)
        expected = sum(self.uploads[name].expected(size) for name in stage.inputs)
        return min(1.0, stage.batches / max(1.0, stage.shards * expected))


def in_words(progress: RunProgress) -> str:
    """Percent, time and time left, as far as they are known."""
    spent = f"after {duration(progress.seconds)}"
    fraction, left = progress.fraction, progress.seconds_left()
    if progress.status is None:
        return f"starting, {spent}"
    if fraction is None:
        return spent
    words = f"{math.floor(100 * fraction)} % {spent}"
    return f"{words}, about {duration(_rounded(left))} left" if left is not None else words


def _rounded(seconds: float) -> float:
    """As exact as such a guess can be."""
    step = 1 if seconds < 10 else 5 if seconds < 60 else 30 if seconds < 300 else 60
    return max(1, math.ceil(seconds / step) * step)
