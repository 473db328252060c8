"""The data directory of a run: whose it is, who works in it, and when it goes."""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from booksan.cluster.credentials import TOKENS, spool_address
from booksan.cluster.prepare import HostSetup, host_environment, write_files
from booksan.errors import UsageError
from booksan.gateway.config import read_address
from booksan.host.handle import Host
from booksan.tickets import load_secret
from booksan.topology.model import Address, HostPlan, Queues, QueuesKind, Topology
from booksan_client.caller import Caller, Limits, Servers
from booksan_common.files import (
    NO_ROOM,
    OPERATOR_TOKEN,
    TOKEN,
    authorization,
    is_temporary,
    make_private,
    state_home,
    take_lock,
    write_atomically,
    write_private,
)
from booksan_common.params import ParamValue

_RUN_FILE = "run.json"
_LOCK_FILE = "run.lock"
_RUN_KEYS = {"identity", "client", "shards", "expires", "finished"}


@dataclass(frozen=True)
class Identity:
    """What makes two commands the same run."""

    dataset: str
    version: int
    params: Mapping[str, ParamValue]
    #: Fingerprint of the file of each source.
    files: Mapping[str, Mapping[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "version": self.version,
            "params": dict(self.params),
            "files": {name: dict(found) for name, found in self.files.items()},
        }

    @property
    def digest(self) -> str:
        text = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Pinned:
    """What the run was begun with and keeps, however often it is taken up again."""

    client: str
    shards: Mapping[str, int]
    expires: int


class Workspace:
    """A data directory that this process has locked."""

    def __init__(self, path: Path, identity: Identity, *, given: bool) -> None:
        self.path = path
        self.identity = identity
        #: The user named it; then the directory itself is left where it is.
        self.given = given
        self._lock: int | None = None

    @classmethod
    def open(cls, data_dir: Path | None, identity: Identity) -> "Workspace":
        if data_dir is None:
            _sweep(state_home() / "runs", identity, time.time())
        path = data_dir or state_home() / "runs" / identity.digest
        workspace = cls(path.absolute(), identity, given=data_dir is not None)
        workspace._enter()
        return workspace

    def pinned(self, fresh: Pinned, now: float) -> tuple[Pinned, bool]:
        """What the run began with, and whether it began earlier; otherwise it begins with this."""
        found = _read(self.path)
        if found is not None:
            if not found["finished"] and found["expires"] > now:
                self._check_identity(found["identity"])
                return Pinned(found["client"], found["shards"], found["expires"]), True
            self._empty()
        self._write(fresh, finished=False)
        return fresh, False

    def _check_identity(self, found: dict[str, Any]) -> None:
        own = self.identity.as_dict()
        if found == own:
            return
        what = "with other files or parameters"
        if found | {"version": self.identity.version} == own:
            what = (
                f"with version {found['version']} of {self.identity.dataset}, and this booksan has "
                f"version {self.identity.version}"
            )
        raise UsageError(
            f"{self.path} belongs to an unfinished run {what}; finish that one, remove the "
            "directory, or name another with --data-dir"
        )

    def settle(self, pinned: Pinned) -> None:
        """The answers are written: whatever happens now, the same command begins anew."""
        self._write(pinned, finished=True)

    def begin_anew(self, fresh: Pinned) -> None:
        """Forgets a run that cannot give its answers."""
        self._empty()
        self._write(fresh, finished=False)

    def finish(self) -> None:
        """Removes a settled run."""
        self._empty()
        if not self.given:
            shutil.rmtree(self.path)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _enter(self) -> None:
        try:
            # Before the lock is made: a directory of someone else is left as it is.
            if self.given and _is_strange(self.path):
                raise UsageError(
                    f"{self.path} is not empty and not a data directory of booksan; "
                    "name an empty one with --data-dir"
                )
            self._lock = self._new_lock()
        except BlockingIOError:
            raise UsageError(
                f"another booksan is working on this run in {self.path}; wait for it or stop it"
            ) from None
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            raise UsageError(
                f"{self.path} cannot be used as data directory: {error.strerror}; "
                "name another one with --data-dir"
            ) from None

    def _new_lock(self) -> int:
        """A lock that was removed while it was being taken, at the end of a run, is no lock."""
        while True:
            make_private(self.path, _untrusted)
            lock = take_lock(self.path / _LOCK_FILE)
            if lock is not None:
                return lock

    def _strangers(self) -> list[str]:
        return [entry.name for entry in self.path.iterdir() if entry.name != _LOCK_FILE]

    def _write(self, pinned: Pinned, *, finished: bool) -> None:
        found = {
            "identity": self.identity.as_dict(),
            "client": pinned.client,
            "shards": dict(pinned.shards),
            "expires": pinned.expires,
            "finished": finished,
        }
        write_atomically(self.path / _RUN_FILE, json.dumps(found, indent=2).encode())

    def _empty(self) -> None:
        """Everything but the lock; the description of the run goes last."""
        names = sorted(self._strangers(), key=lambda name: name == _RUN_FILE)
        for name in names:
            entry = self.path / name
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _read(path: Path) -> dict[str, Any] | None:
    """The description of the run in a directory; None if there is none of ours."""
    try:
        found = json.loads((path / _RUN_FILE).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) and found.keys() >= _RUN_KEYS else None


def _is_strange(path: Path) -> bool:
    """Whether a directory holds anything and no run; what a kill left of a beginning is ours."""
    if not path.exists() or _read(path) is not None:
        return False
    names = (entry.name for entry in path.iterdir())
    own = (_LOCK_FILE, f".{_RUN_FILE}.tmp")
    return any(name not in own and not is_temporary(name) for name in names)


def _untrusted(text: str) -> UsageError:
    return UsageError(f"{text}; name another directory with --data-dir")


def _sweep(runs: Path, identity: Identity, now: float) -> None:
    """Removes runs that nobody can go on with: expired ones, and earlier contents of the files."""
    for path in runs.glob("*"):
        if path.is_dir() and _is_of_no_use(_read(path), identity, now):
            # One that is being worked on, or cannot be removed, must not stop this run.
            with contextlib.suppress(OSError):
                _remove_unlocked(path)


def _is_of_no_use(found: dict[str, Any] | None, identity: Identity, now: float) -> bool:
    """A removal that was cut short leaves no description at all."""
    if found is None or found["finished"] or found["expires"] <= now:
        return True
    files = found["identity"]["files"]
    same_paths = {name: file["path"] for name, file in files.items()} == {
        name: file["path"] for name, file in identity.files.items()
    }
    return same_paths and files != identity.as_dict()["files"]


def _remove_unlocked(path: Path) -> None:
    lock = take_lock(path / _LOCK_FILE)
    if lock is not None:
        try:
            shutil.rmtree(path)
        finally:
            os.close(lock)


# The host of one run: its workers, and a gateway for its one client alone.

_TOKEN_FILE = "token"

#: The gateway is on this machine, and its supervisor brings it back, so pauses are short; it may
#: take long when the queues are. A full disk is watched from here as well.
_LIMITS = Limits(patience=600.0, no_space=5.0, internal=10.0, most_pause=0.5)


def prepared_host(root: Path, shards: Mapping[str, int], expiry: int) -> Host:
    """A host that nobody else knows, for one client; it is not started yet."""
    anywhere = Address("127.0.0.1", 0)
    stages = {stage: tuple(range(count)) for stage, count in shards.items()}
    plan = HostPlan("local", 1, anywhere, anywhere, anywhere, stages)
    limits = {"expiry": expiry, "idle": 0, "max_clients": 1}
    topology = Topology("run", (), Queues(QueuesKind.SPOOL), {plan.name: plan}, limits)
    queues = spool_address(root)
    secret = load_secret(root)
    write_files(HostSetup(topology, plan.name, plan.shards, root, plan.listen, secret, queues))
    # Whatever the user's own servers need is not for this one.
    theirs = {name for token in TOKENS for name in (token, f"{token}_FILE")}
    rest = {name: value for name, value in os.environ.items() if name not in theirs}
    given = {**rest, TOKEN: _token(root), OPERATOR_TOKEN: ""}
    return Host(root, host_environment(given, queues))


def caller_of(root: Path) -> Caller:
    """Finds the gateway wherever it listens after a restart."""

    def found() -> list[str]:
        address = read_address(root)
        return [address["url"]] if address else []

    servers = Servers(found, first_pause=0.02, most_pause=0.5)
    return Caller(servers, authorization(_token(root)), limits=_LIMITS)


def _token(root: Path) -> str:
    path = root / _TOKEN_FILE
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text("ascii")
