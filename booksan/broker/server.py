"""Where the programs of RabbitMQ and Erlang are."""

import shutil
from pathlib import Path

from booksan.errors import UsageError

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
