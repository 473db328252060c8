"""What a power cut leaves of a disk, worked out from the log of its changes.

Durable is what was synced: the content of a file by an fsync of the file, a name by an fsync of
its directory. Of all the rest a cut leaves any part that a file system with a journal could have
kept:
- of each directory the first changes in their order, any number of them; a rename between two
  directories is there in both or in neither;
- of each file any first part of its changes, and of those each block of 4 KiB as it was after any
  of them, or as it was before: so a file may have its new size and zeros in it, and a name may be
  there before the content;
- the last write torn between two sectors.
"""

import os
import random
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.disk.disk import MarkReader
from tests.disk.fuse import BLOCK, ROOT, Change, put

SECTOR = 512
#: Whether the sync at a place in the code is carried out; for tests that leave one out.
Kept = Callable[[str], bool]


@dataclass
class File:
    durable: bytearray = field(default_factory=bytearray)
    #: What was changed since: a new size, or an offset and bytes.
    pending: list[int | tuple[int, bytes]] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def lose(self) -> None:
        """A sync that failed: sizes may have got there, the data will not."""
        self.pending.clear()

    def after_cut(self, chance: random.Random, share: float) -> bytes:
        changes = self.pending[: _portion(chance, len(self.pending), share)]
        data = bytearray(self.durable)
        versions: dict[int, list[bytes]] = {}
        for change in changes:
            if isinstance(change, int):
                if change < len(data):
                    # What was cut off does not come back.
                    versions.clear()
                _apply(data, change)
                continue
            offset, piece = change
            before = bytes(data)
            _apply(data, change)
            for block in range(offset // BLOCK, -(-(offset + len(piece)) // BLOCK)):
                known = versions.setdefault(block, [_block(before, block, len(data))])
                known.append(_block(data, block, len(data)))
        for block, known in versions.items():
            found = known[-1] if chance.random() < share else chance.choice(known)
            if len(known) > 1 and chance.random() < 0.1:
                torn = SECTOR * chance.randrange(1, BLOCK // SECTOR)
                found = known[-1][:torn] + known[-2][torn:]
            start = block * BLOCK
            data[start : start + BLOCK] = found[: len(data) - start].ljust(
                min(BLOCK, len(data) - start), b"\0"
            )
        return bytes(data)


def _block(data: bytes | bytearray, block: int, size: int) -> bytes:
    piece = bytes(data[block * BLOCK : (block + 1) * BLOCK])
    return piece.ljust(min(BLOCK, size - block * BLOCK), b"\0")


def _apply(data: bytearray, change: int | tuple[int, bytes]) -> None:
    if isinstance(change, int):
        if change < len(data):
            del data[change:]
        else:
            data.extend(bytes(change - len(data)))
    else:
        put(data, *change)


def _portion(chance: random.Random, count: int, share: float) -> int:
    """How many of the first ones; all of them if `share` is 1, none if it is 0."""
    if share in (0.0, 1.0):
        return int(share * count)
    return chance.choice((0, count, chance.randint(0, count)))


@dataclass
class Directory:
    durable: dict[bytes, int] = field(default_factory=dict)
    #: Changes by their number; one with two directories has the same number in both.
    pending: list[tuple[int, list[tuple[bytes, int | None]]]] = field(default_factory=list)


class Record:
    """Takes in the changes one by one, and tells what a cut would leave at any moment."""

    def __init__(self, kept: Kept = lambda place: True) -> None:
        self.files: dict[int, File] = {}
        self.directories = {ROOT: Directory()}
        self.modes = {ROOT: stat.S_IFDIR | 0o755}
        self._kept = kept
        #: How often each place in the code has synced.
        self.places: Counter[str] = Counter()
        self._marks = MarkReader()
        self._place = ""
        self._paths = {ROOT: ""}
        self._number = 0
        #: Which two directories a change is of.
        self._shared: dict[int, tuple[int, int]] = {}

    def take(self, change: Change) -> None:
        if self._marks.is_mark(change):
            words = self._marks.read(change)
            self._place = words[1] if words and words[0] == "sync" else ""
        else:
            getattr(self, f"_{change[0]}")(*change[1:])

    # -- changes -----------------------------------------------------------------------------------

    def _create(self, parent: int, name: bytes, ino: int, mode: int) -> None:
        self.modes[ino] = mode
        if stat.S_ISDIR(mode):
            self.directories[ino] = Directory()
        else:
            self.files[ino] = File()
        self._link(parent, name, ino)

    def _link(self, parent: int, name: bytes, ino: int) -> None:
        self._paths[ino] = f"{self._paths[parent]}/{name.decode()}".lstrip("/")
        self._note(parent, [(name, ino)])

    def _unlink(self, parent: int, name: bytes) -> None:
        self._note(parent, [(name, None)])

    def _rename(self, parent: int, old: bytes, to: int, new: bytes, ino: int) -> None:
        self._paths[ino] = f"{self._paths[to]}/{new.decode()}".lstrip("/")
        if parent == to:
            self._note(parent, [(old, None), (new, ino)])
            return
        self._note(parent, [(old, None)])
        self.directories[to].pending.append((self._number, [(new, ino)]))
        self._shared[self._number] = parent, to

    def _note(self, parent: int, names: list[tuple[bytes, int | None]]) -> None:
        self._number += 1
        self.directories[parent].pending.append((self._number, names))

    def _write(self, ino: int, offset: int, piece: bytes) -> None:
        self.files[ino].pending.append((offset, piece))

    def _truncate(self, ino: int, size: int) -> None:
        self.files[ino].pending.append(size)

    def _chmod(self, ino: int, mode: int) -> None:
        self.modes[ino] = mode

    def _lose(self, ino: int) -> None:
        if ino in self.files:
            self.files[ino].lose()

    def _fsync(self, ino: int) -> None:
        place, self._place = self._place or self._of_sqlite(ino), ""
        self.places[place] += 1
        if not self._kept(place):
            return
        if ino in self.files:
            self.files[ino].sync()
            return
        directory = self.directories[ino]
        if directory.pending:
            for number, upto in self._closed({ino: directory.pending[-1][0]}).items():
                self._sync_directory(number, upto)

    def _of_sqlite(self, ino: int) -> str:
        """Nobody else syncs without a mark; of what kind the file is."""
        kind = "directory" if ino in self.directories else self._paths[ino].rpartition(".")[2]
        return f"SQLite: {kind}"

    def _sync_directory(self, ino: int, upto: int) -> None:
        directory = self.directories[ino]
        while directory.pending and directory.pending[0][0] <= upto:
            _change_names(directory.durable, directory.pending.pop(0)[1])

    def _closed(self, upto: dict[int, int]) -> dict[int, int]:
        """With what must be there too, because a rename is in both of its directories."""
        todo = list(upto)
        while todo:
            ino = todo.pop()
            for number, _ in self.directories[ino].pending:
                if number > upto[ino]:
                    break
                for other in self._shared.get(number, ()):
                    if upto.get(other, 0) < number:
                        upto[other] = number
                        todo.append(other)
        return upto

    # -- cuts --------------------------------------------------------------------------------------

    def cut(self, chance: random.Random, to: Path) -> None:
        """Writes what is left into an empty directory."""
        share = chance.choice((0.0, 1.0, 0.5, 0.9, 0.1))
        upto = {}
        for ino, directory in self.directories.items():
            if count := _portion(chance, len(directory.pending), share):
                upto[ino] = directory.pending[count - 1][0]
        left = self._closed(upto)
        places: dict[int, Path] = {}
        for path, ino in self._walk(to, ROOT, left):
            self._put(path, ino, chance, share, places)

    def _walk(self, path: Path, ino: int, left: dict[int, int]) -> Iterator[tuple[Path, int]]:
        for name, child in self._names(ino, left).items():
            place = path / name.decode()
            yield place, child
            if child in self.directories:
                yield from self._walk(place, child, left)

    def _names(self, ino: int, left: dict[int, int]) -> dict[bytes, int]:
        directory = self.directories[ino]
        names = dict(directory.durable)
        for number, change in directory.pending:
            if number > left.get(ino, 0):
                break
            _change_names(names, change)
        return names

    def _put(
        self, path: Path, ino: int, chance: random.Random, share: float, places: dict[int, Path]
    ) -> None:
        mode = self.modes[ino]
        if ino in places:
            os.link(places[ino], path)
            return
        if stat.S_ISDIR(mode):
            path.mkdir()
        elif stat.S_ISFIFO(mode):
            os.mkfifo(path)
        elif stat.S_ISLNK(mode):
            path.symlink_to(bytes(self.files[ino].after_cut(chance, 1.0)).decode())
            return
        else:
            path.write_bytes(self.files[ino].after_cut(chance, share))
            places[ino] = path
        path.chmod(stat.S_IMODE(mode))


def _change_names(names: dict[bytes, int], change: Iterable[tuple[bytes, int | None]]) -> None:
    for name, ino in change:
        if ino is None:
            names.pop(name, None)
        else:
            names[name] = ino
