"""A host as a process of its own: it takes part in the election over UDP, and does nothing else.

Not a simulation, but the other end of it: tests/integration/test_election_udp.py starts it. It
tells one JSON line for each event, and ends with its parent.
"""

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from booksan.membership.messages import BecomeLeader, HostSuspected, StepDown
from booksan.membership.socket import ElectionShell, Event, clock


class Program:
    """What a host's loop does with the election, and nothing else."""

    def __init__(self, config: dict[str, Any]) -> None:
        addresses = {int(one): ("127.0.0.1", port) for one, port in config["ports"].items()}
        host = config["host"]
        bind = addresses.pop(host)
        secret = bytes.fromhex(config["secret"])
        self._shell = ElectionShell(host, bind, addresses, (secret,), Path(config["data_dir"]))
        self._followed: int | None = None
        self._leaving: float | None = None
        self._wakeup, wakeup = os.pipe()
        signal.signal(signal.SIGTERM, lambda *_: os.write(wakeup, b"!"))

    def run(self) -> None:
        stdin = sys.stdin.fileno()
        while self._leaving is None or clock() < self._leaving:
            watched = [self._shell, self._wakeup, stdin]
            ready, _, _ = select.select(watched, [], [], self._shell.timeout())
            # It could act until the turn that stops it begins, but not beyond its lease.
            until = min(clock(), self._shell.machine.lease_end)
            self._tell(self._shell.turn(), until)
            if stdin in ready:
                return
            if self._wakeup in ready:
                os.read(self._wakeup, 1)
                until = min(clock(), self._shell.machine.lease_end)
                self._tell(self._shell.leave(), until)
                self._leaving = clock() + 1.0

    def _tell(self, events: list[Event], until: float) -> None:
        for event in events:
            if isinstance(event, BecomeLeader):
                tell("leads", term=event.term)
            elif isinstance(event, StepDown):
                tell("stops", until=until, reason=event.reason)
            else:
                kind = "suspects" if isinstance(event, HostSuspected) else "healthy"
                tell(kind, host=event.host)
        leader = self._shell.machine.leader
        if leader != self._followed:
            self._followed = leader
            tell("state", leader=leader)


def tell(kind: str, **more: Any) -> None:
    line = json.dumps({"kind": kind, "at": clock(), **more}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


if __name__ == "__main__":
    Program(json.loads(sys.argv[1])).run()
