"""What the machine asks its caller to do, in this order."""

from dataclasses import dataclass
from typing import NamedTuple

from booksan.supervisor.election.messages import Message, Term


class Send(NamedTuple):
    to: int
    message: Message


@dataclass(frozen=True)
class PersistTerm:
    """On disk before anything that follows it in the list is done."""

    term: Term


@dataclass(frozen=True)
class BecomeLeader:
    term: Term


@dataclass(frozen=True)
class StepDown:
    reason: str


@dataclass(frozen=True)
class HostSuspected:
    """The host does not answer the leader; it has not said that it leaves."""

    host: int


@dataclass(frozen=True)
class HostHealthy:
    """The host answers: for the first time in this term, or again."""

    host: int


Action = Send | PersistTerm | BecomeLeader | StepDown | HostSuspected | HostHealthy
