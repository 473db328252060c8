"""Where each batch of a file begins and ends, written down before it is first sent.

A client that was killed goes on with the very same batches. The journal is a file of JSON lines:
first what file it belongs to and how it is cut, then one line for each batch before it is sent
(synced to disk) and one after it was taken (not synced: sending a batch again is harmless).
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from booksan_client.errors import FileChanged
from booksan_client.files import sync_directory

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
        self._file = path.open("ab")
        if not begun:
            self._append({"file": file, "cut": self.cut})
            sync_directory(path.parent)

    def close(self) -> None:
        self._file.close()

    def begin(self, number: int, entry: Entry) -> None:
        """Notes a batch before its first sending; a batch that is noted must be the same."""
        if number < len(self.entries):
            if self.entries[number] != entry:
                raise FileChanged(self._name, f" (batch {number} is not what it was)")
            return
        self.entries.append(entry)
        self._append({"batch": number, "start": entry.start, "end": entry.end, "d": entry.digest})

    def take(self, number: int) -> None:
        """Notes that the batch was taken by the other side."""
        self.taken.add(number)
        self._write({"taken": number})

    def first_missing(self) -> int:
        """The first batch that is not known to be taken."""
        return next(n for n in range(len(self.entries) + 1) if n not in self.taken)

    def _append(self, line: dict[str, Any]) -> None:
        self._write(line)
        os.fdatasync(self._file.fileno())

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def _load(self, file: dict[str, Any]) -> bool:
        """Reads what an earlier process wrote; a last line that is torn was never acted on."""
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self.path, len(whole))
        lines = [json.loads(line) for line in whole.splitlines()]
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
