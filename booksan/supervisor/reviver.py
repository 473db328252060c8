"""Bringing back whole hosts, without ever blocking the leader's loop.

A revival is a process of its own that the loop starts and reaps. It may be done twice, by two
leaders of a partition: whoever revives takes a lock, looks again, and kills before it starts.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from booksan.supervisor.config import ElectionConfig, Revival
from booksan.supervisor.logs import LOGS, SUPERVISOR_LOG, log

#: Said to a revival: only a container that was killed is started, and none is killed.
IF_KILLED = "if-killed"

#: Of a host in a container: what its revivals of others said.
REVIVAL_LOG = "revival.log"

#: Seconds between two revivals of one host: first and longest. A host needs some to start, and one
#: that dies again and again must not keep the leader busy.
COOLDOWN = (8.0, 120.0)
#: Seconds from a host's return to its being missed after which its death is a first one.
HEALTHY_SECONDS = 6.0


class Reviver(Protocol):
    def revive(self, host: str) -> None:
        """Bring the host back, unless that is under way or was tried just now. Returns at once."""

    def returned(self, host: str) -> None:
        """The host answers again."""

    def reaped(self, pid: int, code: int) -> bool:
        """A child has ended; True if it was a revival."""

    def stop(self) -> None:
        """Revive nobody any more, and end what is under way."""


@dataclass
class Patience:
    """When a host may be revived next."""

    due: float = 0.0
    pause: float = COOLDOWN[0]
    #: Since when it answers again.
    back: float | None = None

    def spend(self, now: float) -> bool:
        if now < self.due:
            return False
        self.due = now + self.pause
        self.pause = min(self.pause * 2, COOLDOWN[1])
        return True

    def missed(self, now: float) -> None:
        """It does not answer any more. Only some time of health makes this a first death."""
        if self.back is not None and now - self.back >= HEALTHY_SECONDS:
            self.due, self.pause = 0.0, COOLDOWN[0]
        self.back = None


class NoReviver:
    """For hosts that somebody else brings back."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def revive(self, host: str) -> None:
        if host not in self._told:
            self._told.add(host)
            log("host", f"cannot revive {host}: start it again by hand")

    def returned(self, host: str) -> None:
        self._told.discard(host)

    def reaped(self, pid: int, code: int) -> bool:
        return False

    def stop(self) -> None:
        pass


@dataclass
class CommandReviver:
    """Runs a command for each host that is to come back."""

    commands: Mapping[str, list[str]]
    #: Where the output of each goes.
    logs: Mapping[str, Path]
    running: dict[int, str] = field(default_factory=dict)
    patience: dict[str, Patience] = field(default_factory=dict)
    stopped: bool = False

    def revive(self, host: str) -> None:
        if self.stopped or host in self.running.values():
            return
        now, patience = time.monotonic(), self.patience.setdefault(host, Patience())
        patience.missed(now)
        if not patience.spend(now):
            return
        try:
            pid = self._start(host)
        except OSError as error:
            log("host", f"cannot revive {host}: {error}")
            return
        self.running[pid] = host
        log("host", f"revives {host}, pid {pid}")

    def returned(self, host: str) -> None:
        found = self.patience.get(host)
        if found is not None:
            found.back = time.monotonic()

    def reaped(self, pid: int, code: int) -> bool:
        host = self.running.pop(pid, None)
        if host is None:
            return False
        if code != 0:
            log("host", f"the revival of {host} ended with code {code}; see {self.logs[host]}")
        return True

    def stop(self) -> None:
        self.stopped = True
        for pid in self.running:
            os.kill(pid, 9)

    def _start(self, host: str) -> int:
        """Not waited for: the loop reaps it as any other child."""
        self.logs[host].parent.mkdir(parents=True, exist_ok=True)
        with self.logs[host].open("ab") as output:
            process = subprocess.Popen(
                self.commands[host],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        # Python must not wait for it too.
        process.returncode = 0
        return process.pid


def process_reviver(data_dirs: Mapping[str, str]) -> CommandReviver:
    """For hosts on this machine: their supervisors are started again in their directories."""
    revive = [sys.executable, "-P", "-m", "booksan.supervisor.revive"]
    return CommandReviver(
        {host: [*revive, data_dir] for host, data_dir in data_dirs.items()},
        {host: Path(data_dir) / LOGS / SUPERVISOR_LOG for host, data_dir in data_dirs.items()},
    )


def docker_reviver(
    services: Mapping[str, str], broker: str | None, data_dir: Path
) -> CommandReviver:
    """For hosts and a broker in containers; `data_dir` is that of the leader, whose disk is its
    own."""
    revive = [sys.executable, "-P", "-m", "booksan.supervisor.revive_docker"]
    commands = {host: [*revive, service] for host, service in services.items()}
    if broker is not None:
        commands[broker] = [*revive, broker, IF_KILLED]
    return CommandReviver(commands, dict.fromkeys(commands, data_dir / LOGS / REVIVAL_LOG))


def make_reviver(config: ElectionConfig, data_dir: Path) -> Reviver:
    if not config.revival or config.by is Revival.NONE:
        return NoReviver()
    if config.by is Revival.DOCKER:
        return docker_reviver(config.revival, config.broker[0] if config.broker else None, data_dir)
    return process_reviver(config.revival)
