"""What goes wrong in one schedule, drawn from its seed. Plain data."""

import random
from dataclasses import dataclass
from typing import NamedTuple

#: Hosts in a schedule; small clusters are drawn more often, being the usual ones.
_SIZES = (2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9)
_KINDS = ("crash", "crash", "cut", "pause", "pause", "sleep", "leave", "split", "one-way")


class Fault(NamedTuple):
    at: float
    #: crash, cut (in the middle of a list of actions), pause (datagrams wait), sleep (they are
    #: lost), leave, split, one-way
    kind: str
    #: Position of the host; -1: whoever leads then.
    host: int
    #: Seconds until it is back; beyond the calm: never.
    lasts: float
    #: For a split: the positions on the host's side.
    side: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Schedule:
    hosts: tuple[int, ...]
    starts: tuple[float, ...]
    #: When everything that is broken is whole again.
    calm: float
    #: Seconds of agreement after which the schedule ends.
    hold: float
    faults: tuple[Fault, ...]
    #: Probabilities for each datagram, and the longest usual delay in seconds.
    loss: float
    late: float
    twice: float
    replay: float
    delay: float
    #: The longest time that writing a term takes, in seconds.
    disk: float


def draw(seed: int, bound: float) -> Schedule:
    rng = random.Random(seed)
    size = rng.choice(_SIZES)
    calm = rng.uniform(3.0, 9.0)
    lossy = rng.random() < 0.4
    return Schedule(
        hosts=tuple(rng.sample(range(1, 14), size)),
        starts=_starts(rng, size),
        calm=calm,
        hold=4.0 if rng.random() < 0.2 else 0.8,
        faults=_faults(rng, size, calm),
        loss=rng.choice((0.02, 0.1, 0.3, 0.6)) if lossy else 0.0,
        late=rng.choice((0.0, 0.05, 0.2)) if lossy else 0.0,
        twice=rng.choice((0.0, 0.0, 0.1)),
        replay=rng.choice((0.0, 0.0, 0.1)),
        delay=rng.choice((0.01, 0.1, bound, bound)),
        disk=rng.choice((0.0, 0.0, 0.0, 0.3, 2.5)),
    )


def _starts(rng: random.Random, size: int) -> tuple[float, ...]:
    if rng.random() < 0.5:
        return tuple(rng.uniform(0.0, 0.05) for _ in range(size))
    return tuple(rng.uniform(0.0, 2.0) for _ in range(size))


def _faults(rng: random.Random, size: int, calm: float) -> tuple[Fault, ...]:
    found: list[Fault] = []
    for _ in range(rng.choice((0, 1, 2, 2, 3, 4, 6))):
        at = _moment(rng, calm)
        if found and rng.random() < 0.4:
            # Soon after another one: what two faults do together is the hard part.
            at = min(found[-1].at + rng.choice((0.3, 1.0, 4.0)) * rng.random(), calm)
        found.append(_fault(rng, size, at))
    return tuple(sorted(found))


def _moment(rng: random.Random, calm: float) -> float:
    # Just before the calm is the worst moment: all of the healing falls into it.
    return calm - 0.5 * rng.random() if rng.random() < 0.2 else rng.uniform(0.3, calm)


def _fault(rng: random.Random, size: int, at: float) -> Fault:
    kind = rng.choice(_KINDS)
    host = -1 if rng.random() < 0.4 else rng.randrange(size)
    lasts = rng.choice((rng.uniform(0.1, 1.0), rng.uniform(1.0, 3.5), rng.uniform(2.0, 8.0)))
    side = frozenset(rng.sample(range(size), rng.randint(1, size - 1)))
    return Fault(at, kind, host, lasts, side)
