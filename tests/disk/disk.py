"""The disk of a test: a mounted file system that notes all changes, and is gone afterwards."""

import contextlib
import json
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.disk.fuse import Change, Fault

#: A file on the disk: what is written to it tells when something was confirmed to the outside.
MARKS = ".marks"
#: Where syncs are made for others.
HELPERS = ("files.py", "contextlib.py", "spool_consumer.py", "status.py")
NO_HELPERS = ("take",)


@dataclass
class Disk:
    path: Path
    server: "subprocess.Popen[str]"

    def log(self, to: Path) -> list[Change]:
        """All changes so far, in their order."""
        self._order(log=str(to))
        return cast(list[Change], pickle.loads(to.read_bytes()))

    def fail(self, *faults: Fault) -> None:
        """From now on calls are counted anew, and these fail."""
        self._order(faults=[list(fault) for fault in faults])

    def counts(self) -> dict[str, int]:
        return cast(dict[str, int], self._order()["counts"])

    def failed(self) -> int:
        """How many calls were made to fail."""
        return int(self._order()["failed"])

    def mark(self, *words: object) -> None:
        mark(self.path, *words)

    def _order(self, **order: object) -> dict[str, Any]:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        print(json.dumps(order), file=self.server.stdin, flush=True)
        return cast(dict[str, Any], json.loads(self.server.stdout.readline()))


def mark(disk: Path, *words: object) -> None:
    """Notes in the log of changes that something was confirmed to the outside."""
    descriptor = os.open(disk / MARKS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, json.dumps(words).encode() + b"\n")
    finally:
        os.close(descriptor)


class MarkReader:
    """Finds the marks among the changes; the kernel may write one in pieces."""

    def __init__(self) -> None:
        self._inode = 0
        self._begun = b""

    def is_mark(self, change: Change) -> bool:
        if change[0] == "create" and change[2] == MARKS.encode():
            self._inode = change[3]
        return bool(change[0] == "write" and change[1] == self._inode)

    def read(self, change: Change) -> list[Any] | None:
        """The mark that is complete with this."""
        self._begun += change[3]
        if not self._begun.endswith(b"\n"):
            return None
        words, self._begun = json.loads(self._begun), b""
        return cast(list[Any], words)


def marks(changes: Iterable[Change]) -> Iterator[tuple[int, list[Any]]]:
    """What was confirmed, each with the number of changes before it."""
    reader = MarkReader()
    for place, change in enumerate(changes):
        if reader.is_mark(change):
            words = reader.read(change)
            if words is not None and words[0] != "sync":
                yield place, words


@contextlib.contextmanager
def marked_syncs(disk: Path) -> Iterator[None]:
    """Within it each sync of this process notes the place in the code that asks for it."""

    def noting(sync: Callable[[int], None]) -> Callable[[int], None]:
        def noted(descriptor: int) -> None:
            mark(disk, "sync", _place())
            sync(descriptor)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, noting(getattr(os, name)))
        yield


def _place() -> str:
    """The functions of booksan that lead to a sync: from the one that calls it to the first that
    is no helper for files."""
    names = []
    for frame in traceback.extract_stack()[-3::-1]:
        if frame.name in ("__enter__", "__exit__"):
            continue
        names.append(frame.name)
        if Path(frame.filename).name not in HELPERS or frame.name in NO_HELPERS:
            break
    return " < ".join(names)


def why_no_disk() -> str | None:
    usable = os.access("/dev/fuse", os.R_OK | os.W_OK) and not os.geteuid()
    return None if usable else "needs /dev/fuse and the right to mount"


@contextlib.contextmanager
def mounted(path: Path) -> Iterator[Disk]:
    """Skips the test where nothing can be mounted."""
    reason = why_no_disk()
    if reason is not None:
        pytest.skip(reason)
    path.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.disk.fuse", str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    home = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=home, **pipes) as server:  # type: ignore[call-overload]
        if server.stdout.readline() != "ready\n":
            pytest.skip("a file system cannot be mounted here")
        try:
            yield Disk(path, server)
        finally:
            server.stdin.close()
            server.wait()
