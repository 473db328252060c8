"""What a client keeps on disk: its run, and a journal of each batch before it is first sent."""

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

from booksan_common.errors import FileChanged, UsageError
from booksan_common.files import (
    append_line,
    check_private,
    json_lines,
    make_private,
    new_secret,
    state_home,
    sweep,
    sync_directory,
    take_lock,
    write_private,
)

# Where each batch of a file begins and ends, written down before it is first sent.
#
# A client that was killed goes on with the very same batches. The journal is a file of JSON
# lines: first what file it belongs to and how it is cut, then one line for each batch before it
# is sent (synced to disk) and one after it was taken (not synced: sending a batch again is
# harmless).

_SAMPLE = 64 * 1024


class Entry(NamedTuple):
    start: int
    end: int
    digest: str


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def fingerprint(path: Path) -> dict[str, Any]:
    """What changes when the file changes: size, times, inode, and both ends of the content."""
    stat = path.stat()
    with path.open("rb") as file:
        head = file.read(_SAMPLE)
        file.seek(max(0, stat.st_size - _SAMPLE))
        tail = file.read(_SAMPLE)
    return {
        "path": str(path.resolve()),
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "ends": digest_of(head + tail),
        "inode": stat.st_ino,
        "ctime_ns": stat.st_ctime_ns,
    }


def lasting(found: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a mere copy, link or change of mode gives another value."""
    return {name: value for name, value in found.items() if name not in ("inode", "ctime_ns")}


def surely_other(known: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether the content has changed for certain.

    Other times or another inode only give doubt: a copy or a touch changes them too.
    """
    return any(known.get(name) != found.get(name) for name in ("path", "size", "ends"))


class Journal:
    """The batches of one source of one client; one process has it open at a time."""

    def __init__(self, path: Path, file: dict[str, Any], cut: dict[str, int]) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.taken: set[int] = set()
        self.cut = dict(cut)
        self._name = file["path"]
        #: The file may be another one than at first: what was sent must be compared again.
        self.doubtful = False
        begun = path.exists() and self._load(file)
        self._file = path.open("ab", buffering=0)
        if not begun:
            self._append({"file": file, "cut": self.cut})
        # Also if somebody else began it: a kill may have come before this.
        sync_directory(path.parent)

    def close(self) -> None:
        self._file.close()

    def begin(self, number: int, entry: Entry) -> None:
        """Notes a batch before its first sending; a batch that is noted must be the same."""
        if number < len(self.entries):
            if self.entries[number] != entry:
                raise FileChanged(self._name, f" (batch {number} is not what it was)")
            return
        self._append({"batch": number, "start": entry.start, "end": entry.end, "d": entry.digest})
        self.entries.append(entry)

    def take(self, number: int) -> None:
        """Notes that the batch was taken by the other side."""
        self.taken.add(number)
        self._append({"taken": number}, lasting=False)

    def first_missing(self) -> int:
        """The first batch that is not known to be taken."""
        return next(n for n in range(len(self.entries) + 1) if n not in self.taken)

    def sent(self) -> tuple[int, int]:
        """How far the other side has taken it without a gap: in bytes, and in batches."""
        batches = self.first_missing()
        return (self.entries[batches - 1].end if batches else 0), batches

    def _append(self, line: dict[str, Any], *, lasting: bool = True) -> None:
        text = json.dumps(line, separators=(",", ":"))
        append_line(self._file.fileno(), text, lasting=lasting)

    def _load(self, file: dict[str, Any]) -> bool:
        """Reads what an earlier process wrote."""
        data = self.path.read_bytes()
        lines, size = json_lines(data)
        if size < len(data):
            os.truncate(self.path, size)
        if not lines:
            return False
        if surely_other(lines[0]["file"], file):
            raise FileChanged(file["path"])
        self.doubtful = lines[0]["file"] != file
        self.cut = lines[0]["cut"]
        for line in lines[1:]:
            if "taken" in line:
                self.taken.add(line["taken"])
            else:
                self.entries.append(Entry(line["start"], line["end"], line["d"]))
        return True


# What a client keeps on disk, so that the same command goes on where a killed one was.

_STATE_FILE = "client.json"
_LOCK_FILE = "client.lock"


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
