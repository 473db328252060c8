"""What a RabbitMQ node needs on disk: its programs, its ports, its directory."""

import os
import random
import secrets
import shutil
import socket
from pathlib import Path
from typing import NamedTuple

from booksan.errors import BooksanError, UsageError
from booksan_common.files import write_atomically

# Where the programs of RabbitMQ and Erlang are.

#: The script of the package comes first: Debian's own one in /usr/sbin changes the user.
SERVER_PLACES = (
    "/usr/lib/rabbitmq/bin",
    "/usr/local/lib/rabbitmq/bin",
    "/opt/rabbitmq/sbin",
    "/opt/homebrew/opt/rabbitmq/sbin",
    "/usr/local/opt/rabbitmq/sbin",
)

#: Debian keeps servers where a normal user's PATH does not look.
PATH_PLACES = ("/usr/sbin", "/usr/local/sbin")


def find_server() -> Path | None:
    """The script that starts a node as the user who calls it."""
    for place in SERVER_PLACES:
        if found := shutil.which("rabbitmq-server", path=place):
            return Path(found)
    return _which("rabbitmq-server")


def require_server() -> Path:
    found = find_server()
    if found is None:
        raise UsageError(
            "there is no rabbitmq-server on this machine. Install it (on Debian and Ubuntu: "
            "`scripts/rabbitmq`, or `apt-get install rabbitmq-server`), or use a broker that "
            "runs elsewhere."
        )
    return found


def require_epmd() -> Path:
    """Erlang's port mapper. It is part of every Erlang, but not always in PATH."""
    found = _which("epmd") or _beside_erl()
    if found is None:
        raise UsageError("there is no epmd on this machine: install Erlang as a whole")
    return found


def _beside_erl() -> Path | None:
    erl = _which("erl")
    if erl is None:
        return None
    root = erl.resolve().parents[1]
    return next(iter(sorted(root.glob("erts-*/bin/epmd"), reverse=True)), None)


def _which(program: str) -> Path | None:
    for place in (None, *PATH_PLACES):
        if found := shutil.which(program, path=place):
            return Path(found)
    return None


# Ports of the loopback interface.

#: Below the ports that systems give to outgoing connections. A client that knocks again and again
#: while the node is down could otherwise be given the node's own port, and hold it.
FIRST, LAST = 12000, 31999

#: What a client of AMQP 0-9-1 says first; the server answers with a frame of type 1.
GREETING = b"AMQP\x00\x00\x09\x01"


def free_ports(number: int) -> list[int]:
    # Not the generator that tests seed: two of them would pick the same ports at once.
    choice = random.SystemRandom()
    ports: list[int] = []
    for _ in range(1000):
        port = choice.randint(FIRST, LAST)
        if port not in ports and is_free(port):
            ports.append(port)
        if len(ports) == number:
            return ports
    raise BooksanError(f"there are no free ports from {FIRST} to {LAST}")


def is_free(port: int) -> bool:
    with socket.socket() as one:
        # As servers do: the remains of old connections do not matter.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def speaks_amqp(port: int, timeout: float = 2.0) -> bool:
    """Whether a broker answers there; an open port alone may belong to one that still boots."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.sendall(GREETING)
            return connection.recv(1) == b"\x01"
    except OSError:
        return False


# What a node keeps in its directory, and what it is told when it starts.
#
# DIRECTORY/credentials     user and password, for us
# DIRECTORY/port            where it listens
# DIRECTORY/rabbitmq.conf   its settings, with the same user and password
# DIRECTORY/home            its HOME, with Erlang's cookie
# DIRECTORY/data, log       what it writes
# DIRECTORY/broker.lock     held by the process that runs the node
# DIRECTORY/broker.json     how it is, written by the keeper

#: Bytes of memory at which publishers have to wait: a node of ours shares a small machine.
MEMORY_LIMIT = 1 << 30
#: Bytes of free disk below which publishers have to wait.
DISK_LIMIT = 64 << 20

#: The variable by which the processes of a node are known to be of this directory.
MARK = "BOOKSAN_BROKER"

CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{port}
default_user = {user}
default_pass = {password}
loopback_users.{user} = true
vm_memory_high_watermark.absolute = {memory}
disk_free_limit.absolute = {disk}
log.file.level = info
log.file.rotation.size = 10485760
log.file.rotation.count = 2
"""


class Credentials(NamedTuple):
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, ...)"


class Ports(NamedTuple):
    amqp: int
    distribution: int
    epmd: int


def write_private(path: Path, content: str) -> None:
    """The whole file or nothing, and for its owner only from the first moment."""
    write_atomically(path, content.encode(), mode=0o600)


def make_directories(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("home", "data", "log", "conf.d"):
        (directory / name).mkdir(mode=0o700, exist_ok=True)


def load_credentials(directory: Path) -> Credentials:
    """Made once: the node takes them over when it makes its database, and keeps them."""
    path = directory / "credentials"
    if not path.exists():
        write_private(path, f"booksan\n{secrets.token_hex(16)}\n")
    return Credentials(*path.read_text(encoding="utf-8").split())


def write_config(directory: Path, credentials: Credentials, port: int) -> None:
    text = CONFIG.format(
        port=port,
        user=credentials.user,
        password=credentials.password,
        memory=MEMORY_LIMIT,
        disk=DISK_LIMIT,
    )
    write_private(directory / "rabbitmq.conf", text)
    # Empty ones, so that those of the machine in /etc/rabbitmq are not read.
    write_private(directory / "advanced.config", "[].\n")
    write_private(directory / "rabbitmq-env.conf", "")
    write_private(directory / "enabled_plugins", "[].\n")


def environment(directory: Path, node: str, ports: Ports) -> dict[str, str]:
    """All that the node sees: nothing of the user's own settings for other nodes."""
    path = os.environ.get("PATH", os.defpath)
    return {
        MARK: str(directory),
        "PATH": f"{path}:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": str(directory / "home"),
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(ports.epmd),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_CRASH_DUMP_SECONDS": "0",
        "RABBITMQ_NODENAME": node,
        "RABBITMQ_DIST_PORT": str(ports.distribution),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_CONFIG_FILES": str(directory / "conf.d"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_MNESIA_DIR": str(directory / "data" / "node"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_LOGS": str(directory / "log" / "node.log"),
        # Two threads that sleep when idle, and neighbours on this machine only.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
            "+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"
        ),
        # The start script then becomes the node instead of waiting for it.
        "detached": "true",
    }


def log_tail(directory: Path, lines: int = 20) -> str:
    """The last lines that the node wrote, to its log and to its terminal."""
    parts: list[str] = []
    for name in ("node.log", "output.log"):
        path = directory / "log" / name
        if path.exists():
            parts += path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    return "\n".join(line for line in parts if line.strip())
