"""The directory for answers, and answers from the server as files in it."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

from booksan_client.api import ClientApi
from booksan_client.wire import Sink
from booksan_common.errors import RunFailed, UsageError
from booksan_common.files import (
    append_line,
    check_directory,
    json_lines,
    make_directory,
    replacing,
    sweep,
    sync_directory,
    take_lock,
)
from booksan_common.shapes import Answer, Status

# The directory for answers: one command writes there at a time, and only one run's answers stay.
#
# `.booksan` in it is the lock, and tells what booksan wrote there: JSON lines, first whose
# answers they are, then the name and the digest of each file, noted before the file gets its
# name. So a file of the user's own, or one that was changed since, is never taken for ours.

FORMATS = ("csv", "json", "parquet")
MANIFEST = ".booksan"
REJECTED = "rejected.csv"
#: Bytes of a file in memory while its digest is made.
_READ_BYTES = 1024 * 1024


class OutDirectory:
    """A directory that this process has locked; the lock goes with the process."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock
        self._owner: dict[str, Any] = {}
        #: Digests of what was written under each name; the last one may not have got it.
        self._written: dict[str, set[str]] = {}
        self._load()

    @classmethod
    def open(cls, path: Path) -> Self:
        check_directory(path, UsageError)
        while True:
            make_directory(path)
            try:
                lock = take_lock(path / MANIFEST, 0o666)
            except BlockingIOError:
                raise UsageError(
                    f"another booksan is writing into {path}; wait for it, or name another "
                    "directory with --out"
                ) from None
            except OSError as error:
                raise UsageError(
                    f"{path / MANIFEST} cannot be used: {error.strerror}; name another directory "
                    "with --out"
                ) from None
            if lock is not None:
                return cls(path, lock)

    def close(self) -> None:
        """Leaves no trace where nothing was written."""
        if self._lock is None:
            return
        if not os.fstat(self._lock).st_size:
            (self.path / MANIFEST).unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    def check(self, answers: Iterable[str]) -> None:
        """Refuses files in the way that are not ours, before hours of work are spent."""
        wanted = {f"{name}.{form}" for name in answers for form in FORMATS}
        for name in sorted(wanted | {REJECTED} | self._written.keys()):
            if os.path.lexists(self.path / name) and not self._is_ours(name):
                raise UsageError(
                    f"{self.path / name} was not written by booksan, or was changed since, and "
                    "would stand beside the new answers; move it away, or name another directory "
                    "with --out"
                )

    def begin(self, client: str, form: str, queries: Sequence[str] = ()) -> None:
        """From here on only what this command writes: other runs, formats and queries go."""
        owner: dict[str, Any] = {"client": client, "format": form}
        if queries:
            owner["queries"] = sorted(queries)
        if self._owner == owner:
            return
        self.clear()
        self._owner = owner
        self._append(owner)

    def clear(self) -> None:
        """Removes everything that booksan wrote here."""
        for name in list(self._written):
            self.remove(name)
        # Before it is forgotten whose they are: a power cut may bring them back.
        sync_directory(self.path)
        assert self._lock is not None
        os.ftruncate(self._lock, 0)
        self._owner, self._written = {}, {}

    def remove(self, name: str) -> None:
        """The file, if it is ours."""
        if self._is_ours(name):
            (self.path / name).unlink()

    @contextmanager
    def writing(self, name: str, look: Callable[[], object]) -> "Iterator[Pieces]":
        """A file that gets this name when it is whole; `look` is called meanwhile."""
        with replacing(self.path / name) as file:
            pieces = Pieces(file, look)
            yield pieces
            self._note(name, pieces.digest)

    def _note(self, name: str, digest: str) -> None:
        if digest not in self._written.setdefault(name, set()):
            self._written[name].add(digest)
            self._append({"file": name, "digest": digest})

    def _is_ours(self, name: str) -> bool:
        path = self.path / name
        if name not in self._written or path.is_symlink() or not path.is_file():
            return False
        with path.open("rb") as file:
            return _digest(file) in self._written[name]

    def _append(self, line: dict[str, Any]) -> None:
        assert self._lock is not None
        append_line(self._lock, json.dumps(line, sort_keys=True))

    def _load(self) -> None:
        """What earlier commands wrote."""
        assert self._lock is not None
        if os.fstat(self._lock).st_uid not in (os.geteuid(), 0):
            raise UsageError(
                f"{self.path / MANIFEST} belongs to another user; name another directory with --out"
            )
        with os.fdopen(os.dup(self._lock), "rb") as file:
            data = file.read()
        lines, size = json_lines(data)
        if b"\n" in data and not lines:
            raise self._unreadable("it does not begin with JSON")
        os.ftruncate(self._lock, size)
        try:
            for line in lines:
                if "file" in line:
                    name = _own_name(line["file"])
                    self._written.setdefault(name, set()).add(str(line["digest"]))
                else:
                    self._owner = line
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from error
        sweep(self.path)

    def _unreadable(self, why: object) -> UsageError:
        return UsageError(
            f"{self.path / MANIFEST} is not readable ({why}); name another directory with --out"
        )


class Pieces:
    """Writes pieces into a file and counts the lines; begins anew with every try."""

    def __init__(self, file: BinaryIO, look: Callable[[], object]) -> None:
        self.lines = 0
        self._file = file
        self._look = look
        self._hash = _new_hash()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def begin(self) -> Sink:
        self.lines = 0
        self._hash = _new_hash()
        self._file.seek(0)
        self._file.truncate()
        return self._take

    def _take(self, piece: bytes) -> None:
        self._look()
        self._file.write(piece)
        self._hash.update(piece)
        self.lines += piece.count(b"\n")


def _new_hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _digest(file: BinaryIO) -> str:
    found = _new_hash()
    while piece := file.read(_READ_BYTES):
        found.update(piece)
    return found.hexdigest()


def _own_name(name: object) -> str:
    """Of a file that a command could have written."""
    if not isinstance(name, str) or name != Path(name).name or name.startswith("."):
        raise ValueError(f"{name!r} is no name of an answer")
    return name


# Answers from the server as files: each as soon as it is complete, whole or not at all.

#: Rows of an answer that are shown; all of them are in the file.
ROWS_SHOWN = 10


class AnswerDisplay(Protocol):
    """What is told about answers."""

    @property
    def shows_answers(self) -> bool: ...
    def answer(self, page: Answer, path: Path) -> None: ...
    def note(self, text: str) -> None: ...


@dataclass
class Summary:
    """What there is to tell at the end."""

    files: dict[str, str] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    megabytes: float = 0.0
    seconds: float = 0.0
    resumed: bool = False
    #: Batches that an earlier process had begun to send and did not know to be taken.
    resent: int = 0
    #: Joins in which nothing matched, in words.
    unmatched: list[str] = field(default_factory=list)


class Collector:
    """Fetches answers into a directory."""

    def __init__(
        self,
        api: ClientApi,
        out: OutDirectory,
        form: str,
        display: AnswerDisplay,
        look: Callable[[], object] = lambda: None,
        queries: Sequence[str] = (),
    ) -> None:
        """`look` is called while an answer is being fetched; it raises to end that.

        Of `queries` the answers are fetched, without any of all.
        """
        self.api = api
        self.out = out
        self.form = form
        self.display = display
        self.look = look
        self.queries = queries
        self.summary = Summary()

    def look_at(self, status: Status) -> None:
        """Fetches what has become complete since the last look."""
        for name in self._wanted(status):
            answer = status.answers[name]
            if answer.complete and name not in self.summary.answers:
                self._fetch(name, answer.rows)

    def finish(self, status: Status) -> None:
        """Everything else that a run leaves, once it is done."""
        self.look_at(status)
        missing = set(self._wanted(status)) - set(self.summary.answers)
        if missing:
            raise RunFailed(f"the run is done, but not complete: {', '.join(sorted(missing))}")
        self.write_rejected(status)
        self.summary.rows = {name: found.rows for name, found in status.sources.items()}
        self.summary.rejected = {name: found.rejected for name, found in status.sources.items()}
        self.summary.unmatched = status.unmatched()
        for text in self.summary.unmatched:
            self.display.note(text)

    def _wanted(self, status: Status) -> list[str]:
        return [name for name in status.answers if not self.queries or name in self.queries]

    def write_rejected(self, status: Status) -> None:
        """The rejected rows known so far."""
        rows = 0
        if status.rejected:
            rows = self._write(REJECTED, self.api.rejected).lines - 1
        if rows > 0:
            path = self.out.path / REJECTED
            self.summary.files["rejected"] = str(path)
            self.display.note(f"{words_for_rows(rows)} rejected; {path} says which and why")
        else:
            # One from an earlier run would tell of rows that these files do not have.
            self.out.remove(REJECTED)

    def _fetch(self, name: str, rows: int) -> None:
        path = self.out.path / f"{name}.{self.form}"
        self._write(path.name, lambda sink: self.api.answer(name, self.form, sink))
        self.summary.files[name] = str(path)
        self.summary.answers[name] = rows
        if self.display.shows_answers:
            page = self.api.page(name, ROWS_SHOWN)
            self.summary.answers[name] = page.total
            self.display.answer(page, path)

    def _write(self, name: str, fetch: Callable[[Callable[[], Sink]], object]) -> Pieces:
        # Before the first of the new ones appears, not before there is one.
        self.out.begin(self.api.id, self.form, self.queries)
        with self.out.writing(name, self.look) as pieces:
            fetch(pieces.begin)
        return pieces


def words_for_rows(count: int) -> str:
    return "1 row was" if count == 1 else f"{count:,} rows were"
