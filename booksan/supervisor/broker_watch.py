"""Whether the broker can be reached, asked without ever blocking the leader's loop.

A broker dies without a word to the hosts, and Docker leaves one alone that was killed by `docker
kill`. So the leader knocks at its door: a connection is opened and, a moment later, looked at and
closed. One that hangs still opens connections; only one that is gone is noticed.
"""

import socket

from booksan.supervisor.config import Address
from booksan.supervisor.names import is_numeric

#: Seconds from one knock to the next.
_EVERY = 1.0
#: Seconds of silence after which the broker is lost: one that only changes its address, or that
#: Docker itself is starting again, may be back by then.
SILENCE = 5.0


class BrokerWatch:
    """Time in, decision out; only the knocking is done here."""

    def __init__(self, address: Address) -> None:
        name, self._port = address
        self._host = name if is_numeric(name) else None
        self._knock: socket.socket | None = None
        self._due: float | None = None
        #: Since when it does not answer.
        self.silent: float | None = None

    def found_at(self, host: str) -> None:
        """The name stands for another address now."""
        self._host = host

    @property
    def due(self) -> float | None:
        """Monotonic time of the next knock; None before the first."""
        return self._due

    def turn(self, now: float) -> float | None:
        """Knock if it is time to; the seconds of a long silence, if one has just ended."""
        if self._due is not None and now < self._due:
            return None
        ended = None
        if self._due is not None:
            ended = self._note(now, reached=self._is_open())
        self._close()
        self._open()
        self._due = now + _EVERY
        return ended

    def lost(self, now: float) -> bool:
        return self.silent is not None and now - self.silent >= SILENCE

    def rest(self) -> None:
        """Somebody else leads."""
        self._close()
        self._due = self.silent = None

    def _note(self, now: float, *, reached: bool) -> float | None:
        if not reached:
            # The knock that was not heard was a moment ago.
            self.silent = now - _EVERY if self.silent is None else self.silent
            return None
        ended = now - self.silent if self.silent is not None and self.lost(now) else None
        self.silent = None
        return ended

    def _open(self) -> None:
        if self._host is None:
            return
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._knock = socket.socket(family, socket.SOCK_STREAM)
        self._knock.setblocking(False)
        self._knock.connect_ex((self._host, self._port))

    def _is_open(self) -> bool:
        if self._knock is None:
            return False
        try:
            self._knock.getpeername()
        except OSError:
            return False
        return True

    def _close(self) -> None:
        if self._knock is not None:
            self._knock.close()
            self._knock = None
