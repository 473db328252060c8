"""Files that are whole or not there, locks, the state directory, tokens and secrets."""

import errno
import fcntl
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from booksan_common.errors import NoSpace, UsageError

# Files that are whole or not there, and names in directories that last.


def sync_directory(path: Path) -> None:
    """A new name in a directory is durable only after this."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = 0o777, *, within: Path | None = None) -> None:
    """Makes the directory and what is missing above it, with names that last.

    `within`: up to there also those that another process has made, and may not have synced yet.
    """
    chain = (path, *path.parents)
    if within is None:
        made = [part for part in chain if not part.exists()]
    else:
        made = list(chain[: chain.index(within)])
    path.mkdir(mode, parents=True, exist_ok=True)
    for part in made:
        # Who may put names into a directory, but not read it, cannot sync it.
        with suppress(PermissionError):
            sync_directory(part.parent)


#: Names of files that are being written; nobody can guess one beforehand.
_TEMPORARY = re.compile(r"\.booksan-[0-9a-f]{32}\.tmp")
#: Bits of a directory's mode that let others put files into it.
_OTHERS_MAY_WRITE = 0o022


@contextmanager
def replacing(
    path: Path, mode: int = 0o666, *, lasting: bool = True, temporary: Path | None = None
) -> Iterator[BinaryIO]:
    """The whole file or nothing: a temporary beside it, synced, then renamed over it.

    Its name is new: two writers never share one, and no link that waits there is followed.
    `lasting`: also if the machine's power fails. A loop that must not wait for a disk does without.
    """
    if temporary is None:
        temporary = path.with_name(f".booksan-{secrets.token_hex(16)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if lasting:
        sync_directory(path.parent)


def write_atomically(
    path: Path,
    write: bytes | Callable[[BinaryIO], object],
    *,
    mode: int = 0o666,
    lasting: bool = True,
) -> None:
    """The same for a file that one process writes: what a kill left of it goes with the next."""
    # Always the same name. It is made anew, so that a link that somebody laid there leads nowhere.
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with replacing(path, mode, lasting=lasting, temporary=temporary) as file:
        if callable(write):
            write(file)
        else:
            file.write(write)


def append_line(descriptor: int, line: str, *, lasting: bool = True) -> None:
    """One more line at the end of a file of this process: the whole of it, or nothing."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    rest = memoryview(f"{line}\n".encode())
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if lasting:
            os.fdatasync(descriptor)
    except BaseException:
        # Also if only the sync failed: the next one would not write what this one has lost.
        os.ftruncate(descriptor, size)
        raise


def json_lines(data: bytes) -> tuple[list[Any], int]:
    """What was appended line by line, and how many bytes of it are whole.

    A crash tears the last lines: they end early, or a power cut left zeros in them. What is torn
    was not synced, so nobody has acted on it.
    """
    found, size = [], 0
    for line in data.splitlines(keepends=True):
        try:
            found.append(json.loads(line if line.endswith(b"\n") else b""))
        except ValueError:
            break
        size += len(line)
    return found, size


#: What a full disk says, and a user's share of it that is used up.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def room_in(directory: Path) -> Iterator[None]:
    """A full disk is told with its place: a write that fails does not know it."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise NoSpace(
            f"no space left where {directory} is; make room, then type the same command again"
        ) from error


def is_temporary(name: str) -> bool:
    return _TEMPORARY.fullmatch(name) is not None


def sweep(directory: Path) -> None:
    """Removes what killed writers left; for whoever has the directory's lock."""
    for path in directory.iterdir():
        if is_temporary(path.name):
            path.unlink(missing_ok=True)


def write_private(path: Path, data: bytes) -> None:
    """A file that nobody else may read, durable and whole."""
    with replacing(path, 0o600) as file:
        file.write(data)


def existing(path: Path) -> Path:
    """The path, or the nearest directory above it that is there."""
    place = path.absolute()
    while not os.path.lexists(place):
        place = place.parent
    return place


def check_directory(path: Path, refuse: Callable[[str], Exception]) -> None:
    """Refuses a place where answers could not be written, before hours of work are spent."""
    place = existing(path)
    if not place.is_dir():
        raise refuse(f"{path}: {place} is not a directory; name another one with --out")
    if not os.access(place, os.W_OK | os.X_OK):
        raise refuse(f"{path}: {place} is not writable; name another one with --out")


def make_private(path: Path, refuse: Callable[[str], Exception]) -> None:
    """A directory in which only this user can put files; an existing one is made so, or refused."""
    make_directory(path, 0o700)
    check_private(path, refuse)


def check_private(path: Path, refuse: Callable[[str], Exception]) -> None:
    found = path.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise refuse(f"{path} belongs to another user, who could change what is kept there")
    if found.st_mode & _OTHERS_MAY_WRITE:
        if found.st_uid != os.geteuid():
            raise refuse(f"{path} can be written by others; take that right away (chmod go-w)")
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS_MAY_WRITE)


def _flock(path: Path, flags: int, operation: int, mode: int = 0) -> int | None:
    """The file, opened and locked; None if somebody else has a lock on it that forbids this one."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def try_lock(path: Path, mode: int = 0o600, *, wait: bool = False) -> int | None:
    """A descriptor that holds the lock until it is closed or its process dies; None if taken."""
    return _flock(
        path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), mode
    )


def take_lock(path: Path, mode: int = 0o600) -> int | None:
    """The lock in a directory, BlockingIOError if another has it; None if it went meanwhile."""
    try:
        lock = try_lock(path, mode)
    except FileNotFoundError:
        return None
    if lock is None:
        raise BlockingIOError(errno.EWOULDBLOCK, "another process has the lock", str(path))
    if os.fstat(lock).st_nlink:
        return lock
    os.close(lock)
    return None


def is_locked(path: Path) -> bool:
    """Whether anybody has the lock; a file that is not there is not made.

    The look is a shared lock for a moment, so that two who look at once do not see each other.
    """
    try:
        descriptor = _flock(path, os.O_RDONLY, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


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


# Tokens and secrets: read from files and the environment, never from the command line.

TOKEN = "BOOKSAN_TOKEN"
OPERATOR_TOKEN = "BOOKSAN_OPERATOR_TOKEN"

_PRINTABLE = re.compile(r"[\x21-\x7e]+")


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def read_token(file: Path | None, variable: str) -> str | None:
    """The token in a file, or else in the environment; its text is never part of an error."""
    if file is not None:
        try:
            text, where = file.read_text("utf-8"), str(file)
        except OSError as error:
            raise UsageError(f"{file}: the token cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{file}: holds no token, which is printable ASCII") from None
    else:
        text, where = os.environ.get(variable, ""), variable
        if not text.strip():
            return None
    token = text.strip()
    if not _PRINTABLE.fullmatch(token):
        raise UsageError(f"{where}: holds no token, which is one line of printable ASCII")
    return token


def authorization(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
