"""What can be hit, how often each is when nothing else is said; durations as people write them."""

import re
from enum import StrEnum

from booksan.errors import UsageError
from booksan_common.names import nearest

_FORM = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(option: str, text: str) -> float:
    """Seconds, more than none."""
    found = _FORM.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds <= 0:
        raise UsageError(f"{option} {text!r} is not a duration; write 2s, 500ms or 1m")
    return seconds


class TargetKind(StrEnum):
    WORKER = "worker"
    GATEWAY = "gateway"
    SUPERVISOR = "supervisor"
    LEADER = "leader"
    HOST = "host"
    BROKER = "broker"
    CLIENT = "client"


#: Those that take a whole host along: its workers die with its supervisor.
WHOLE_HOSTS = frozenset({TargetKind.SUPERVISOR, TargetKind.LEADER, TargetKind.HOST})

#: Seconds from one strike to the next: what takes long to come back is hit less often.
DEFAULT_EVERY = {
    TargetKind.WORKER: 2.0,
    TargetKind.GATEWAY: 5.0,
    TargetKind.SUPERVISOR: 15.0,
    TargetKind.LEADER: 20.0,
    TargetKind.HOST: 15.0,
    TargetKind.BROKER: 45.0,
    TargetKind.CLIENT: 10.0,
}


def parse_targets(text: str) -> list[TargetKind]:
    """`worker,host`, each once, in the order of the kinds: the seed alone decides the rest."""
    named = {_kind("--target", word.strip()) for word in text.split(",") if word.strip()}
    if not named:
        raise UsageError(f"--target names nothing; {nearest('', list(TargetKind))}")
    return [kind for kind in TargetKind if kind in named]


def parse_every(text: str | None, targets: list[TargetKind]) -> dict[TargetKind, float]:
    """`2s` for all kinds, `worker=1s,host=15s` for some, or both: `2s,host=15s`."""
    rest: float | None = None
    given: dict[TargetKind, float] = {}
    for word in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, duration = word.rpartition("=")
        seconds = parse_duration("--every", duration)
        if not equals:
            rest = seconds
            continue
        kind = _kind("--every", name.strip())
        if kind not in targets:
            raise UsageError(f"--every {word}: {kind} is not among the targets")
        given[kind] = seconds
    return {kind: given.get(kind, rest or DEFAULT_EVERY[kind]) for kind in targets}


def _kind(option: str, word: str) -> TargetKind:
    try:
        return TargetKind(word)
    except ValueError:
        raise UsageError(
            f"{option}: there is no {word!r}; {nearest(word, list(TargetKind))}"
        ) from None
