"""What a client keeps on disk, so that the same command goes on where a killed one was."""

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from booksan_client.credentials import new_secret
from booksan_client.errors import UsageError
from booksan_client.files import check_private, make_private, sweep, take_lock, write_private

_STATE_FILE = "client.json"
_LOCK_FILE = "client.lock"


def state_home() -> Path:
    """The user's state directory, as the XDG specification has it: relative ones are ignored."""
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    if configured.is_absolute():
        return configured / "booksan"
    try:
        return Path.home() / ".local" / "state" / "booksan"
    except RuntimeError:
        raise UsageError(
            "there is no home directory; name a state directory with XDG_STATE_HOME"
        ) from None


def clients_home() -> Path:
    return state_home() / "clients"


@dataclass
class ClientState:
    """One run; the secret is the only proof that it is ours."""

    id: str
    dataset: str
    params: dict[str, Any]
    #: Fingerprint of the file of each source.
    files: dict[str, dict[str, Any]]
    secret: str = field(default_factory=new_secret, repr=False)
    servers: list[str] = field(default_factory=list)
    out: str | None = None
    #: Says where the run's home is; None before a server has begun this generation of the run.
    ticket: str | None = None
    #: How often the run was begun anew because the server had lost it; noted before it is used.
    generation: int = 0
    #: uploading, uploaded, or collected: the answers are written, and may be deleted at the server.
    phase: str = "uploading"
    begun: float = field(default_factory=time.time)
    #: What there is to tell once everything is collected.
    summary: dict[str, Any] | None = None


def new_id(dataset: str) -> str:
    return f"{dataset}-{secrets.token_hex(5)}"


def key_of(dataset: str, paths: Sequence[Path], params: Mapping[str, Any]) -> str:
    """What makes two commands the same run; what the files hold is looked at later."""
    places = [str(path.resolve()) for path in paths]
    text = json.dumps([dataset, places, dict(params)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


class StateDirectory:
    """A directory with client.json and the journals of the sources."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> ClientState | None:
        return _read(self.path)

    def begin(self, state: ClientState) -> ClientState:
        """Journals without a state are what a removal left, and belong to another run."""
        self.forget_journals()
        self.save(state)
        return state

    def save(self, state: ClientState) -> None:
        write_private(self.path / _STATE_FILE, json.dumps(asdict(state), indent=2).encode())

    def journal(self, source: str) -> Path:
        return self.path / f"{source}.journal"

    def forget_journals(self) -> None:
        for journal in self.path.glob("*.journal"):
            journal.unlink()


class ClientDirectory(StateDirectory):
    """A client's own directory, locked: one process works on a client at a time."""

    def __init__(self, path: Path, lock: int) -> None:
        super().__init__(path)
        self._lock: int | None = lock

    @classmethod
    def open(cls, path: Path) -> Self:
        while True:
            _make_private(path)
            try:
                lock = take_lock(path / _LOCK_FILE)
            except BlockingIOError:
                raise UsageError(
                    f"another booksan is working on this client in {path}; wait for it or stop it"
                ) from None
            if lock is not None:
                sweep(path)
                return cls(path, lock)

    def clear(self) -> None:
        """The state goes last: without it, journals mean nothing."""
        self.forget_journals()
        (self.path / _STATE_FILE).unlink(missing_ok=True)

    def remove(self) -> None:
        self.clear()
        shutil.rmtree(self.path)

    def close(self) -> None:
        """Leaves no directory behind in which nothing was begun."""
        if self._lock is None:
            return
        if self.path.exists() and not (self.path / _STATE_FILE).exists():
            self.remove()
        os.close(self._lock)
        self._lock = None


def known_clients() -> Iterator[tuple[Path, ClientState]]:
    """All clients of this user, oldest first."""
    if clients_home().exists():
        # Whoever could write there could name a server that the user's token would go to.
        _check_private(clients_home())
    found = [(path, _read(path)) for path in sorted(clients_home().glob("*"))]
    known = [(path, state) for path, state in found if state is not None]
    yield from sorted(known, key=lambda each: each[1].begun)


def find_client(id: str) -> tuple[Path, ClientState] | None:
    return next((each for each in known_clients() if each[1].id == id), None)


def _read(path: Path) -> ClientState | None:
    try:
        found = json.loads((path / _STATE_FILE).read_text("utf-8"))
        known = {each.name for each in fields(ClientState)}
        return ClientState(**{name: value for name, value in found.items() if name in known})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path / _STATE_FILE} is not readable ({error}); remove {path} to begin anew"
        ) from error


def _make_private(path: Path) -> None:
    """The directory and those above it that are booksan's own."""
    try:
        for place in (state_home(), path.parent, path):
            make_private(place, _untrusted)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be made: {error.strerror}; name another place with XDG_STATE_HOME"
        ) from None


def _check_private(path: Path) -> None:
    for place in (state_home(), path):
        check_private(place, _untrusted)


def _untrusted(text: str) -> UsageError:
    return UsageError(f"{text}; name another place with XDG_STATE_HOME")
