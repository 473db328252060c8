"""A worker dies with its supervisor, however that one dies."""

import ctypes
import os
import signal
import sys
import threading
from typing import Protocol

_PR_SET_PDEATHSIG = 1


class Tether(Protocol):
    """Made in the supervisor, tied in each child."""

    #: What a child must keep open.
    child_fds: frozenset[int]

    def tie(self) -> None:
        """Tie this process to the supervisor. Called in a child, right after the fork."""


class DeathSignalTether:
    """Linux: the kernel kills the child when its parent ends."""

    child_fds: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self._supervisor = os.getpid()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def tie(self) -> None:
        if self._libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL)) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        # The supervisor may have died before the call: then no signal will come.
        if os.getppid() != self._supervisor:
            os._exit(1)


class PipeTether:
    """Elsewhere: a pipe that ends when the supervisor does, and a thread that waits for it."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        self.child_fds: frozenset[int] = frozenset({self._read_fd})

    def tie(self) -> None:
        os.close(self._write_fd)
        threading.Thread(target=self._watch, name="tether", daemon=True).start()

    def _watch(self) -> None:
        os.read(self._read_fd, 1)
        os.kill(os.getpid(), signal.SIGKILL)


def make_tether() -> Tether:
    return DeathSignalTether() if sys.platform == "linux" else PipeTether()
