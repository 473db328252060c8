"""Network namespaces of our own, joined by a bridge: links that are cut, also one way only.

A packet that is dropped is dropped in silence: it goes to a neighbour that is not there. So
connections hang, as they do when a cable is pulled.
"""

import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

DEADLINE = 60.0
#: Of a neighbour that is not there.
NOBODY = "02:00:00:00:00:99"
#: Flag of setns(2) for a network namespace.
CLONE_NEWNET = 0x40000000


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=DEADLINE)


@dataclass
class Network:
    """A namespace for each name, 10.77.0.1 and so on, and one with the bridge that joins them."""

    names: Collection[str]
    tag: str = field(default_factory=lambda: f"bk{secrets.token_hex(2)}")

    def space(self, name: str) -> str:
        return f"{self.tag}-{name}"

    def inside(self, name: str) -> list[str]:
        """The words before a command that is to run there."""
        return ["ip", "netns", "exec", self.space(name)]

    @property
    def hub(self) -> str:
        return self.space("hub")

    def address(self, name: str) -> str:
        return f"10.77.0.{list(self.names).index(name) + 1}"

    def make(self) -> None:
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "set", "lo", "up")
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        for name in self.names:
            space = self.space(name)
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "link", "add", "wire", "type", "veth", "peer", name, "netns", self.hub)
            ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "wire")
            ip("-n", space, "link", "set", "wire", "up")
            ip("-n", self.hub, "link", "set", name, "master", "bridge", "up")

    def cut(self, name: str) -> None:
        """From all others, both ways."""
        ip("-n", self.hub, "link", "set", name, "down")

    def mend(self, name: str) -> None:
        ip("-n", self.hub, "link", "set", name, "up")

    def drop(self, sender: str, receiver: str) -> None:
        """What one sends to the other is lost; the other way is as it was."""
        words = ("neigh", "replace", self.address(receiver), "lladdr", NOBODY)
        ip("-n", self.space(sender), *words, "nud", "permanent", "dev", "wire")

    def pass_on(self, sender: str, receiver: str) -> None:
        with suppress(subprocess.CalledProcessError):
            ip("-n", self.space(sender), "neigh", "del", self.address(receiver), "dev", "wire")

    def listener(self, name: str, port: int) -> socket.socket:
        """A socket that listens there and is used here."""
        found: list[socket.socket] = []
        thread = threading.Thread(target=lambda: found.append(self._listen(name, port)))
        thread.start()
        thread.join()
        return found[0]

    def _listen(self, name: str, port: int) -> socket.socket:
        """Only this thread is moved to the namespace, and it ends after this."""
        space = os.open(f"/run/netns/{self.space(name)}", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(space, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(space)
        return socket.create_server((self.address(name), port))

    def remove(self) -> None:
        for name in (*self.names, "hub"):
            with suppress(subprocess.CalledProcessError):
                ip("netns", "delete", self.space(name))


def why_no_network() -> str | None:
    if os.geteuid() != 0 or shutil.which("ip") is None or not Path("/run").is_dir():
        return "network namespaces need root and iproute2"
    return None


@contextmanager
def namespaces(*names: str) -> Iterator[Network]:
    """Skips the test, with the reason, where they cannot be had."""
    reason = why_no_network()
    if reason is not None:
        pytest.skip(reason)
    found = Network(names)
    try:
        try:
            found.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield found
    finally:
        found.remove()
