"""A file system in memory that notes every change, and fails when it is told to.

It speaks the kernel's FUSE protocol itself, so it needs nothing but /dev/fuse and the right to
mount. It is a process of its own (`python -m tests.disk.fuse PLACE`), so that whoever is killed
does not take it along; it unmounts and ends when its standard input does. It sees all that real
processes write, SQLite and mapped memory included. What a power cut would leave of it is worked
out afterwards, from the log of changes: see `cuts.py`.
"""

import ctypes
import errno
import json
import os
import pickle
import select
import stat
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

#: One change of the file system: what, and to which inodes and names.
Change = tuple[Any, ...]

ROOT = 1
#: Seconds that the kernel may remember names and attributes: nobody else changes them.
FOR_EVER = 1 << 30
MAX_WRITE = 1 << 20
BUFFER = MAX_WRITE + (1 << 16)
BLOCK = 4096

_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<6Q10I")
_ENTRY = struct.Struct("<4Q2I")
_INIT = struct.Struct("<4I2H2I2H2IH22x")
_SETATTR = struct.Struct("<2I3Q3Q3I5I")
_IO = struct.Struct("<2Q2IQ2I")
_BIG_WRITES, _ATOMIC_TRUNC, _MAX_PAGES = 1 << 5, 1 << 3, 1 << 22
_NO_OPEN, _NO_OPENDIR = 1 << 17, 1 << 24
_MNT_DETACH = 2

#: Kinds of calls that can be made to fail, by the number of their operation.
KINDS = {
    8: "create", 9: "mkdir", 10: "unlink", 11: "rmdir", 12: "rename", 13: "link", 15: "read",
    16: "write", 20: "fsync", 30: "fsync", 35: "create", 45: "rename",
}  # fmt: skip
SETATTR = 4


@dataclass
class Node:
    """A file, a directory, a FIFO or a link."""

    ino: int
    mode: int
    rdev: int = 0
    data: bytearray = field(default_factory=bytearray)
    #: Names with their inodes, and where a listing goes on after each.
    names: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    links: int = 1
    changed: int = field(default_factory=time.time_ns)

    def attr(self) -> bytes:
        seconds, nanos = divmod(self.changed, 10**9)
        size = len(self.data)
        times = (seconds, seconds, seconds, nanos, nanos, nanos)
        blocks = -(-size // 512)
        who = (os.getuid(), os.getgid())
        return _ATTR.pack(
            self.ino, size, blocks, *times, self.mode, self.links, *who, self.rdev, BLOCK, 0
        )


class Fault(NamedTuple):
    """Calls `first` to `last` of a kind fail; `kind` may be `any`."""

    kind: str
    first: int
    last: int
    code: int


class Refused(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class Memory:
    """The file system itself: each method is one operation of the protocol."""

    def __init__(self) -> None:
        self.nodes = {ROOT: Node(ROOT, stat.S_IFDIR | 0o755, links=2)}
        self.log: list[Change] = []
        self.faults: list[Fault] = []
        self.counts: Counter[str] = Counter()
        self.failed = 0
        self._cookie = 0
        self._operations: dict[int, Callable[[int, memoryview], bytes]] = {
            1: self.lookup, 3: self.getattr, SETATTR: self.setattr, 5: self.readlink,
            6: self.symlink, 8: self.mknod, 9: self.mkdir, 10: self.unlink, 11: self.rmdir,
            12: self.rename, 13: self.link, 15: self.read, 16: self.write, 17: self.statfs,
            20: self.fsync, 26: self.init, 28: self.readdir, 30: self.fsyncdir, 35: self.create,
            45: self.rename2,
        }  # fmt: skip

    def answer(self, operation: int, ino: int, body: memoryview) -> bytes:
        """Raises Refused."""
        call = self._operations.get(operation)
        if call is None:
            raise Refused(errno.ENOSYS)
        kind = KINDS.get(operation)
        if operation == SETATTR and body[0] & 8:
            kind = "truncate"
        if kind is not None:
            self._may_fail(kind, ino)
        return call(ino, body)

    def _may_fail(self, kind: str, ino: int) -> None:
        for one in (kind, "any"):
            self.counts[one] += 1
            for fault in self.faults:
                if fault.kind == one and fault.first <= self.counts[one] <= fault.last:
                    self.failed += 1
                    if kind == "fsync":
                        # As Linux does it: what was dirty counts as clean from now on, and is gone.
                        self.log.append(("lose", ino))
                    raise Refused(fault.code)

    # -- the protocol ------------------------------------------------------------------------------

    def init(self, ino: int, body: memoryview) -> bytes:
        flags = _BIG_WRITES | _MAX_PAGES | _NO_OPEN | _NO_OPENDIR
        return _INIT.pack(7, 31, 1 << 17, flags, 16, 12, MAX_WRITE, 1, 256, 0, 0, 0, 0)

    def lookup(self, ino: int, body: memoryview) -> bytes:
        found = self.nodes[ino].names.get(_name(body))
        if found is None:
            return _ENTRY.pack(0, 0, FOR_EVER, 0, 0, 0) + bytes(_ATTR.size)
        return self._entry(self.nodes[found[0]])

    def getattr(self, ino: int, body: memoryview) -> bytes:
        return struct.pack("<QII", FOR_EVER, 0, 0) + self.nodes[ino].attr()

    def setattr(self, ino: int, body: memoryview) -> bytes:
        valid, _, _, size, *_, mode, _, _, _, _ = _SETATTR.unpack_from(body)
        node = self.nodes[ino]
        if valid & 1:
            node.mode = mode
            self.log.append(("chmod", ino, mode))
        if valid & 8:
            _resize(node.data, size)
            self.log.append(("truncate", ino, size))
        node.changed = time.time_ns()
        return self.getattr(ino, body)

    def readlink(self, ino: int, body: memoryview) -> bytes:
        return bytes(self.nodes[ino].data)

    def symlink(self, ino: int, body: memoryview) -> bytes:
        name, target = bytes(body).split(b"\0")[:2]
        node = self._new(ino, name, stat.S_IFLNK | 0o777)
        node.data[:] = target
        self.log.append(("write", node.ino, 0, target))
        return self._entry(node)

    def mknod(self, ino: int, body: memoryview) -> bytes:
        mode, rdev = struct.unpack_from("<II", body)
        return self._entry(self._new(ino, _name(body[16:]), mode, rdev))

    def mkdir(self, ino: int, body: memoryview) -> bytes:
        (mode,) = struct.unpack_from("<I", body)
        return self._entry(self._new(ino, _name(body[8:]), stat.S_IFDIR | mode))

    def create(self, ino: int, body: memoryview) -> bytes:
        _, mode = struct.unpack_from("<II", body)
        node = self._new(ino, _name(body[16:]), stat.S_IFREG | mode & 0o7777)
        return self._entry(node) + bytes(16)

    def unlink(self, ino: int, body: memoryview) -> bytes:
        name = _name(body)
        self._forget(ino, name)
        self.log.append(("unlink", ino, name))
        return b""

    def rmdir(self, ino: int, body: memoryview) -> bytes:
        name = _name(body)
        if self.nodes[self.nodes[ino].names[name][0]].names:
            raise Refused(errno.ENOTEMPTY)
        return self.unlink(ino, body)

    def rename(self, ino: int, body: memoryview) -> bytes:
        (to,) = struct.unpack_from("<Q", body)
        return self._rename(ino, to, bytes(body[8:]))

    def rename2(self, ino: int, body: memoryview) -> bytes:
        to, flags = struct.unpack_from("<QI", body)
        if flags:
            raise Refused(errno.EINVAL)
        return self._rename(ino, to, bytes(body[16:]))

    def link(self, ino: int, body: memoryview) -> bytes:
        (old,) = struct.unpack_from("<Q", body)
        name, node = _name(body[8:]), self.nodes[old]
        self._remember(ino, name, old)
        node.links += 1
        self.log.append(("link", ino, name, old))
        return self._entry(node)

    def read(self, ino: int, body: memoryview) -> bytes:
        _, offset, size, *_ = _IO.unpack_from(body)
        return bytes(self.nodes[ino].data[offset : offset + size])

    def write(self, ino: int, body: memoryview) -> bytes:
        _, offset, size, *_ = _IO.unpack_from(body)
        piece, node = bytes(body[_IO.size : _IO.size + size]), self.nodes[ino]
        put(node.data, offset, piece)
        node.changed = time.time_ns()
        self.log.append(("write", ino, offset, piece))
        return struct.pack("<II", size, 0)

    def fsync(self, ino: int, body: memoryview) -> bytes:
        self.log.append(("fsync", ino))
        return b""

    fsyncdir = fsync

    def statfs(self, ino: int, body: memoryview) -> bytes:
        return struct.pack("<5Q4I24x", *[1 << 20] * 5, BLOCK, 255, BLOCK, 0)

    def readdir(self, ino: int, body: memoryview) -> bytes:
        _, offset, size, *_ = _IO.unpack_from(body)
        out = bytearray()
        for name, (child, cookie) in self.nodes[ino].names.items():
            if cookie > offset:
                kind = self.nodes[child].mode >> 12
                entry = struct.pack("<QQII", child, cookie, len(name), kind) + name
                entry += bytes(-len(entry) % 8)
                if len(out) + len(entry) > size:
                    break
                out += entry
        return bytes(out)

    # -- names -------------------------------------------------------------------------------------

    def _entry(self, node: Node) -> bytes:
        return _ENTRY.pack(node.ino, 0, FOR_EVER, FOR_EVER, 0, 0) + node.attr()

    def _new(self, parent: int, name: bytes, mode: int, rdev: int = 0) -> Node:
        node = Node(len(self.nodes) + 1, mode, rdev, links=2 if stat.S_ISDIR(mode) else 1)
        self.nodes[node.ino] = node
        self._remember(parent, name, node.ino)
        self.log.append(("create", parent, name, node.ino, mode))
        return node

    def _remember(self, parent: int, name: bytes, ino: int) -> None:
        self._cookie += 1
        names = self.nodes[parent].names
        names.pop(name, None)
        names[name] = ino, self._cookie
        self.nodes[parent].changed = time.time_ns()

    def _forget(self, parent: int, name: bytes) -> int:
        ino, _ = self.nodes[parent].names.pop(name)
        self.nodes[parent].changed = time.time_ns()
        self.nodes[ino].links -= 1
        return ino

    def _rename(self, parent: int, to: int, names: bytes) -> bytes:
        old, new = names.split(b"\0")[:2]
        if new in self.nodes[to].names:
            self._forget(to, new)
        ino = self._forget(parent, old)
        self.nodes[ino].links += 1
        self._remember(to, new, ino)
        self.log.append(("rename", parent, old, to, new, ino))
        return b""


def _name(body: memoryview) -> bytes:
    text = bytes(body)
    return text[: text.index(b"\0")]


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def put(data: bytearray, offset: int, piece: bytes) -> None:
    """A write, which leaves a hole of zeros where nothing was."""
    if offset > len(data):
        _resize(data, offset)
    data[offset : offset + len(piece)] = piece


# -- the process -----------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)


def mount(place: Path) -> int:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    given = f"{options},allow_other,default_permissions".encode()
    if _libc.mount(b"booksan-tests", bytes(place), b"fuse.booksan", 0, given):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return device


def unmount(place: Path) -> None:
    _libc.umount2(bytes(place), _MNT_DETACH)


def serve(place: Path) -> None:
    """Until standard input ends. Each line of it is an order, and gets a line for an answer."""
    memory, device, buffer = Memory(), mount(place), bytearray(BUFFER)
    print("ready", flush=True)
    view = memoryview(buffer)
    try:
        while True:
            ready, _, _ = select.select([device, sys.stdin], [], [])
            if device in ready:
                _one(memory, device, view)
            elif not _obey(memory, sys.stdin.readline()):
                return
    finally:
        unmount(place)


def _one(memory: Memory, device: int, view: memoryview) -> None:
    try:
        size = os.readv(device, [view])
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            # The call was interrupted before it was read.
            return
        raise
    _, operation, unique, ino, *_ = _IN.unpack_from(view)
    if operation in (2, 36, 42):
        # Forgotten inodes and interrupts get no answer.
        return
    try:
        answer, code = memory.answer(operation, ino, view[_IN.size : size]), 0
    except Refused as refused:
        answer, code = b"", -refused.code
    head = _OUT.pack(_OUT.size + len(answer), code, unique)
    try:
        os.writev(device, [head, answer])
    except OSError as error:
        # The caller was killed meanwhile.
        if error.errno != errno.ENOENT:
            raise


def _obey(memory: Memory, line: str) -> bool:
    if not line:
        return False
    order = json.loads(line)
    if "log" in order:
        Path(order["log"]).write_bytes(pickle.dumps(memory.log))
    if "faults" in order:
        memory.faults = [Fault(*fault) for fault in order["faults"]]
        memory.counts.clear()
        memory.failed = 0
    print(json.dumps({"counts": memory.counts, "failed": memory.failed}), flush=True)
    return True


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
