"""The states of a host and its workers, and the exit codes with a meaning."""

from enum import StrEnum

from booksan.errors import EXIT_CANNOT_START as EXIT_CANNOT_START


class HostState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    FAILED = "failed"
    STOPPED = "stopped"


class WorkerState(StrEnum):
    WAITING = "waiting"  # for its start or its next restart
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


#: A worker broke too often: the supervisor gave up.
EXIT_GAVE_UP = 70

#: Of a revival: the host is not dead at all.
EXIT_AT_WORK = 71

#: The data directory belongs to another supervisor, or workers of an earlier one still live.
EXIT_LOCKED = 75
