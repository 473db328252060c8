"""What can be hit, and how often each is when nothing else is said."""

from enum import StrEnum

from booksan.chaos.durations import parse_duration
from booksan.errors import UsageError


class Kind(StrEnum):
    WORKER = "worker"
    GATEWAY = "gateway"
    SUPERVISOR = "supervisor"
    LEADER = "leader"
    HOST = "host"
    BROKER = "broker"
    CLIENT = "client"


#: Those that take a whole host along: its workers die with its supervisor.
WHOLE_HOSTS = frozenset({Kind.SUPERVISOR, Kind.LEADER, Kind.HOST})

#: Seconds from one strike to the next: what takes long to come back is hit less often.
DEFAULT_EVERY = {
    Kind.WORKER: 2.0,
    Kind.GATEWAY: 5.0,
    Kind.SUPERVISOR: 15.0,
    Kind.LEADER: 20.0,
    Kind.HOST: 15.0,
    Kind.BROKER: 45.0,
    Kind.CLIENT: 10.0,
}


def parse_targets(text: str) -> list[Kind]:
    """`worker,host`, each once, in the order of the kinds: the seed alone decides the rest."""
    named = {_kind("--target", word.strip()) for word in text.split(",") if word.strip()}
    if not named:
        raise UsageError(f"--target names nothing; there is {_all()}")
    return [kind for kind in Kind if kind in named]


def parse_every(text: str | None, targets: list[Kind]) -> dict[Kind, float]:
    """`2s` for all kinds, `worker=1s,host=15s` for some, or both: `2s,host=15s`."""
    rest: float | None = None
    given: dict[Kind, float] = {}
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


def _kind(option: str, word: str) -> Kind:
    try:
        return Kind(word)
    except ValueError:
        raise UsageError(f"{option}: there is no {word!r}; there is {_all()}") from None


def _all() -> str:
    return ", ".join(Kind)
