"""What hosts say to each other. Plain data; `datagram` makes bytes of it."""

from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """The numbers travel: never change one, only add."""

    #: "Is anybody above me alive?", to all higher hosts.
    ELECTION = 1
    #: "I am, and higher than you", the answer to ELECTION and to a COORDINATOR from below.
    ALIVE = 2
    #: "I am going to lead in this term: stop acting and agree."
    COORDINATOR = 3
    #: The answer to COORDINATOR. With its term: agreed, and the sender does not act any more.
    #: With a later one: refused.
    AGREED = 4
    #: "I lead in this term. Are you well?"
    HEARTBEAT = 5
    #: The answer to HEARTBEAT, with the latest term that the sender knows.
    PONG = 6
    #: "I am being stopped: do not revive me, do not wait for me."
    LEAVING = 7


class Term(NamedTuple):
    """One leadership. Later ones are greater; no two hosts ever have the same."""

    counter: int
    host: int


NO_TERM = Term(0, 0)


class Message(NamedTuple):
    kind: Kind
    sender: int
    term: Term
    #: Names a question; an answer echoes it.
    nonce: int
    echo: int = 0
    #: The life of the sender, set by whoever received it: greater after each start.
    boot: int = 0
    #: Whether the sender knows the receiver's present life, so that it cannot be a recording of
    #: an earlier one. Set by whoever received it.
    proven: bool = False
