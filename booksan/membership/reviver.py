"""Bringing back whole hosts, without ever blocking the leader's loop.

A revival is a process of its own that the loop starts and reaps. It may be done twice, by two
leaders of a partition: whoever revives takes a lock, looks again, and kills before it starts. How
often a host was revived outlives the leader, or two hosts that each believe the other dead would
never come to rest.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from booksan.host.config import ElectionConfig, Revival
from booksan.host.logs import LOGS, SUPERVISOR_LOG, log, tell
from booksan.host.status import EXIT_AT_WORK, write_json
from booksan_common.backoff import Backoff

#: Said to a revival: only a container that was killed is started, and none is killed.
IF_KILLED = "if-killed"

#: In the leader's data directory: when each host may be revived next.
MEMORY_FILE = "revivals.json"

#: Of a host in a container: what its revivals of others said.
REVIVAL_LOG = "revival.log"

#: Seconds between two revivals of one host: first and longest. A host needs some to start, and one
#: that dies again and again must not keep the leader busy. It is no more than that: while one host
#: is away, no gateway is healthy.
COOLDOWN = (8.0, 32.0)
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
    pauses: Backoff = field(default_factory=lambda: Backoff(*COOLDOWN))
    #: Since when it answers again.
    back: float | None = None

    def spend(self, now: float) -> bool:
        if now < self.due:
            return False
        self.due = now + next(self.pauses)
        return True

    def leave(self, now: float) -> None:
        """It was not dead at all. Should it die now, that is a first death."""
        self.pauses.reset()
        self.due = now + self.pauses.coming

    def missed(self, now: float) -> None:
        """It does not answer any more. Only some time of health makes this a first death."""
        if self.back is not None and now - self.back >= HEALTHY_SECONDS:
            self.pauses.reset()
            self.due = 0.0
        self.back = None


class RevivalMemory:
    """A file with the patience for each host, in wall-clock time: monotonic time ends with the
    machine's."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Patience]:
        now, wall = time.monotonic(), time.time()
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            kept = {
                str(host): (float(one["due"]), float(one["pause"])) for host, one in found.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log("host", f"{self._path} cannot be read, and begins anew: {error}")
            return {}
        first, longest = COOLDOWN
        return {
            # A clock that was put back must not make anybody wait for longer than ever.
            host: Patience(
                now + min(due - wall, pause),
                Backoff(first, longest, coming=min(max(pause, first), longest)),
            )
            for host, (due, pause) in kept.items()
            if wall - due < longest
        }

    def write(self, patience: Mapping[str, Patience]) -> None:
        ahead = time.time() - time.monotonic()
        kept = {
            host: {"due": one.due + ahead, "pause": one.pauses.coming}
            for host, one in patience.items()
        }
        try:
            # The loop must not wait for the disk.
            write_json(self._path, kept, lasting=False)
        except OSError as error:
            # Reviving is worth more than remembering it.
            log("host", f"{self._path} cannot be written: {error.strerror}")


class NoReviver:
    """For hosts that somebody else brings back."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def revive(self, host: str) -> None:
        if host not in self._told:
            self._told.add(host)
            tell("host", f"cannot revive {host}: start it again by hand")

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
    memory: RevivalMemory
    running: dict[int, str] = field(default_factory=dict)
    stopped: bool = False
    #: Hosts that the log says something about already, until they answer again.
    told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.patience = self.memory.read()

    def revive(self, host: str) -> None:
        if self.stopped or host in self.running.values():
            return
        if host not in self.commands:
            self._cannot(host)
            return
        now, patience = time.monotonic(), self.patience.setdefault(host, Patience())
        patience.missed(now)
        if not patience.spend(now):
            return
        self.memory.write(self.patience)
        try:
            pid = self._start(host)
        except OSError as error:
            tell("host", f"cannot revive {host}: {error}")
            return
        self.running[pid] = host
        if host not in self.told:
            tell("host", f"revives {host}, pid {pid}")

    def returned(self, host: str) -> None:
        self.told.discard(host)
        found = self.patience.get(host)
        if found is not None:
            found.back = time.monotonic()

    def reaped(self, pid: int, code: int) -> bool:
        host = self.running.pop(pid, None)
        if host is None:
            return False
        if code == EXIT_AT_WORK:
            self._leave(host)
        elif code != 0:
            tell("host", f"the revival of {host} ended with code {code}; see {self.logs[host]}")
        return True

    def _cannot(self, host: str) -> None:
        if host not in self.told:
            self.told.add(host)
            tell("host", f"cannot revive {host}: start it again by hand")

    def _leave(self, host: str) -> None:
        self.patience[host].leave(time.monotonic())
        self.memory.write(self.patience)
        if host not in self.told:
            self.told.add(host)
            tell(
                "host",
                f"{host} does not answer datagrams, but its supervisor is at work: another "
                "secret, another version, or UDP between the hosts is blocked; it is left alone",
            )

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


def process_reviver(data_dirs: Mapping[str, str], data_dir: Path) -> CommandReviver:
    """For hosts on this machine: their supervisors are started again in their directories."""
    revive = [sys.executable, "-P", "-m", "booksan.membership.revive"]
    return CommandReviver(
        {host: [*revive, theirs] for host, theirs in data_dirs.items()},
        {host: Path(theirs) / LOGS / SUPERVISOR_LOG for host, theirs in data_dirs.items()},
        RevivalMemory(data_dir / MEMORY_FILE),
    )


def docker_reviver(
    services: Mapping[str, str], broker: str | None, data_dir: Path
) -> CommandReviver:
    """For hosts and a broker in containers; `data_dir` is that of the leader, whose disk is its
    own."""
    revive = [sys.executable, "-P", "-m", "booksan.membership.revive_docker"]
    commands = {host: [*revive, service] for host, service in services.items()}
    if broker is not None:
        commands[broker] = [*revive, broker, IF_KILLED]
    logs = dict.fromkeys(commands, data_dir / LOGS / REVIVAL_LOG)
    return CommandReviver(commands, logs, RevivalMemory(data_dir / MEMORY_FILE))


def make_reviver(config: ElectionConfig, data_dir: Path) -> Reviver:
    if not config.revival or config.by is Revival.NONE:
        return NoReviver()
    if config.by is Revival.DOCKER:
        return docker_reviver(config.revival, config.broker[0] if config.broker else None, data_dir)
    return process_reviver(config.revival, data_dir)
