"""Names of other hosts, looked up outside of the supervisor's loop.

A look-up can take seconds, so a short-lived child does it and answers through a pipe. Names are
looked up again and again: a container that comes back may have another address.
"""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import NoReturn

from booksan.host.config import Address
from booksan.host.logs import log

#: Seconds between two look-ups: while somebody is missing, and while all is well.
_SOON, _LATER = 1.0, 5.0
#: Seconds after which the child answers with what it knows by then: the name of a host that is down
#: can take longer than all others.
_ENOUGH = 3.0
#: Seconds after which the child is ended, should it hang.
_LONGEST = 10
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


def is_numeric(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def listening(address: Address) -> Address:
    """Where to listen if that is how the others call this host: a name may stand for any of its
    addresses, and only the others have to know which one."""
    host, port = address
    if is_numeric(host):
        return address
    return ("127.0.0.1" if host == "localhost" else "0.0.0.0"), port


class Names:
    """The present addresses of all hosts that are known by a name."""

    def __init__(self, peers: Mapping[int, Address], family: socket.AddressFamily) -> None:
        self._peers = {host: peer for host, peer in peers.items() if not is_numeric(peer[0])}
        self._family = family
        self._known: dict[str, str] = {}
        self._due = time.monotonic()
        self._pid: int | None = None
        self._pipe: int | None = None
        self._answer = b""

    @property
    def fds(self) -> list[int]:
        return [] if self._pipe is None else [self._pipe]

    @property
    def due(self) -> float:
        """Monotonic time of the next look-up; far away when there is nothing to look up."""
        idle = not self._peers or self._pipe is not None
        return time.monotonic() + _LONGEST if idle else self._due

    def turn(self, *, missing: bool) -> dict[int, Address]:
        """Hosts with their addresses, if those are new. `missing`: somebody is not heard."""
        if self._pipe is not None:
            return self._hear(self._pipe, missing=missing)
        if self._peers and time.monotonic() >= self._due:
            self._ask()
        return {}

    def reaped(self, pid: int) -> bool:
        if pid != self._pid:
            return False
        self._pid = None
        return True

    def close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _ask(self) -> None:
        names = sorted({name for name, _ in self._peers.values()})
        reader, writer = os.pipe()
        # Until the child has its own handlers, it would answer for its parent.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                _look_up(names, self._family, writer)
        except OSError as error:
            log("host", f"cannot look up the other hosts: {error}")
            os.close(reader)
            self._due = time.monotonic() + _LATER
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(writer)
        os.set_blocking(reader, False)
        self._pid, self._pipe, self._answer = pid, reader, b""

    def _hear(self, pipe: int, *, missing: bool) -> dict[int, Address]:
        try:
            while piece := os.read(pipe, 65536):
                self._answer += piece
        except BlockingIOError:
            return {}
        self.close()
        # A child that was killed has said nothing.
        found: dict[str, str] = json.loads(self._answer or b"{}")
        unknown = {name for name, _ in self._peers.values()} - found.keys()
        self._due = time.monotonic() + (_SOON if missing or unknown else _LATER)
        changed = {name for name, host in found.items() if self._known.get(name) != host}
        self._known.update(found)
        return {
            host: (found[name], port)
            for host, (name, port) in self._peers.items()
            if name in changed
        }


def _look_up(names: list[str], family: socket.AddressFamily, writer: int) -> NoReturn:
    """In the child, which keeps nothing of the supervisor: neither its locks nor its handlers."""
    try:
        signal.set_wakeup_fd(-1)
        for signum in _SIGNALS:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        signal.alarm(_LONGEST)
        os.closerange(3, writer)
        os.closerange(writer + 1, max(writer + 1, os.sysconf("SC_OPEN_MAX")))
        os.write(writer, json.dumps(_look_up_all(names, family)).encode())
    finally:
        os._exit(0)


def _look_up_all(names: list[str], family: socket.AddressFamily) -> dict[str, str]:
    found: dict[str, str] = {}

    def put(name: str) -> None:
        host = _resolved(name, family)
        if host is not None:
            found[name] = host

    threads = [threading.Thread(target=put, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _ENOUGH
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def _resolved(name: str, family: socket.AddressFamily) -> str | None:
    try:
        # As bytes: Python would load a codec for text.
        return str(socket.getaddrinfo(name.encode(), None, family, socket.SOCK_DGRAM)[0][4][0])
    except OSError:
        # Not started yet, or gone: it is asked for again.
        return None


# Whether the broker can be reached, asked without ever blocking the leader's loop.
#
# A broker dies without a word to the hosts, and Docker leaves one alone that was killed by `docker
# kill`. So the leader knocks at its door: a connection is opened and, a moment later, looked at and
# closed. One that hangs still opens connections; only one that is gone is noticed.

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
