"""Signals as bytes in a pipe: a handler only wakes the loop, and the loop decides."""

import os
import signal
from types import FrameType

#: Each of them asks the host to drain.
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

#: A terminal sends these to all processes of the tree. The supervisor alone acts on them.
_TERMINAL_SIGNALS = frozenset({signal.SIGINT, signal.SIGHUP})


class Wakeup:
    """Catches SIGCHLD and the stop signals from the moment it is made."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._caught = {signal.SIGCHLD, *filter(_wanted, STOP_SIGNALS)}
        for signum in self._caught:
            signal.signal(signum, _only_wake)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._caught)

    def signals(self) -> frozenset[int]:
        """Take the signals that came since the last call."""
        try:
            return frozenset(os.read(self.fd, 65536))
        except BlockingIOError:
            return frozenset()

    def block(self) -> set[int]:
        """Hold signals back. Until a child has its own handlers, it would answer for its parent."""
        return set(signal.pthread_sigmask(signal.SIG_BLOCK, self._caught))

    def unblock(self, mask: set[int]) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def forget_in_child(self, mask: set[int]) -> None:
        """Give a new child the handlers of a new process."""
        signal.set_wakeup_fd(-1)
        for signum in self._caught:
            signal.signal(signum, signal.SIG_DFL)
        for signum in _TERMINAL_SIGNALS:
            signal.signal(signum, signal.SIG_IGN)
        self.unblock(mask)


def _wanted(signum: signal.Signals) -> bool:
    # nohup and background jobs of a shell ask for these to be ignored.
    return signum not in _TERMINAL_SIGNALS or signal.getsignal(signum) != signal.SIG_IGN


def _only_wake(_signum: int, _frame: FrameType | None) -> None:
    """Python writes the signal's number to the pipe; there is no more to do."""
