"""What a node keeps in its directory, and what it is told when it starts.

DIRECTORY/credentials     user and password, for us
DIRECTORY/port            where it listens
DIRECTORY/rabbitmq.conf   its settings, with the same user and password
DIRECTORY/home            its HOME, with Erlang's cookie
DIRECTORY/data, log       what it writes
DIRECTORY/broker.lock     held by the process that runs the node
DIRECTORY/broker.json     how it is, written by the keeper
"""

import os
import secrets
from pathlib import Path
from typing import NamedTuple

from booksan.files import sync_directory

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
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


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
