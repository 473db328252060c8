"""The data directory of a run: whose it is, who works in it, and when it goes."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from booksan.errors import UsageError
from booksan.files import write_atomically
from booksan.spec import ParamValue

_RUN_FILE = "run.json"
_LOCK_FILE = "run.lock"


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


def state_home() -> Path:
    """The user's state directory, as the XDG specification has it."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    base = Path(configured) if configured else Path.home() / ".local" / "state"
    return base / "booksan"


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
            _sweep(state_home() / "runs", identity)
        path = data_dir or state_home() / "runs" / identity.digest
        workspace = cls(path.absolute(), identity, given=data_dir is not None)
        workspace._enter()
        return workspace

    def pinned(self, fresh: Pinned, now: float) -> tuple[Pinned, bool]:
        """What the run began with, and whether it began earlier; otherwise it begins with this."""
        found = self._read()
        if found is not None:
            if found["identity"] != self.identity.as_dict():
                raise UsageError(
                    f"{self.path} belongs to a run with other files or parameters; finish that "
                    "one, remove the directory, or name another one with --data-dir"
                )
            if not found["finished"] and found["expires"] > now:
                return Pinned(found["client"], found["shards"], found["expires"]), True
            self._empty()
        elif self.given and self._strangers():
            raise UsageError(
                f"{self.path} is not empty and not a data directory of booksan; name an empty one"
            )
        self._write(fresh, finished=False)
        return fresh, False

    def finish(self, pinned: Pinned) -> None:
        """Marked first, so that a kill in the middle of the removal leaves nothing half-alive."""
        self._write(pinned, finished=True)
        self._empty()
        if not self.given:
            shutil.rmtree(self.path)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _enter(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(
                self.path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be used as data directory: {error.strerror}; "
                "name another one with --data-dir"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"another booksan is working on this run in {self.path}; wait for it or stop it"
            ) from None

    def _strangers(self) -> list[str]:
        return [entry.name for entry in self.path.iterdir() if entry.name != _LOCK_FILE]

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.path / _RUN_FILE).read_text("utf-8"))
        except FileNotFoundError:
            return None
        return found

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


def _sweep(runs: Path, identity: Identity) -> None:
    """Removes runs that were begun with earlier contents of the same files: nobody can go on."""
    for path in runs.glob(f"*/{_RUN_FILE}"):
        try:
            found = json.loads(path.read_text("utf-8"))["identity"]["files"]
        except (OSError, ValueError, KeyError):
            continue
        same_paths = {name: file["path"] for name, file in found.items()} == {
            name: file["path"] for name, file in identity.files.items()
        }
        if same_paths and found != identity.as_dict()["files"]:
            _remove_unlocked(path.parent)


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
