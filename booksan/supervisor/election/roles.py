"""What a host is in the election. Plain data."""

from enum import Enum, auto


class Role(Enum):
    #: Follows a leader, or has just begun.
    FOLLOWER = auto()
    #: Has asked those above, and waits for an answer.
    ELECTING = auto()
    #: Somebody above is alive; waits for its COORDINATOR.
    AWAITING = auto()
    #: Waits until nobody else can be acting.
    CLAIMING = auto()
    LEADER = auto()
    #: Is being stopped, and only says so.
    LEFT = auto()
