"""Secrets, tokens and the address of the queues: from the environment and from files.

None of them ever stands in an argument, in host.json or in a log.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from booksan.errors import UsageError
from booksan.tickets import load_secret
from booksan.topology.model import QueuesKind, Topology
from booksan.transport import QUEUES_VARIABLE
from booksan_common.files import OPERATOR_TOKEN, TOKEN

SECRET = "BOOKSAN_SECRET"
SECRET_FILE = "BOOKSAN_SECRET_FILE"
#: Of a secret that is accepted beside it, while the hosts change it one by one.
SECRET_ALSO = "BOOKSAN_SECRET_ALSO"
SECRET_ALSO_FILE = "BOOKSAN_SECRET_ALSO_FILE"
TOKENS = (TOKEN, OPERATOR_TOKEN)

#: Shorter ones can be guessed.
_LEAST_SECRET = 16


def read_token(env: Mapping[str, str], name: str) -> str | None:
    """The variable itself, or the first line of the file that NAME_FILE names."""
    value, file = env.get(name), env.get(f"{name}_FILE")
    if value and file:
        raise UsageError(f"{name} and {name}_FILE are both set; unset one of them")
    if not file:
        return value or None
    token = _read(Path(file), f"{name}_FILE").decode(errors="replace").partition("\n")[0].strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise UsageError(f"{file} ({name}_FILE) must hold a token of printable characters")
    return token


def read_secret(env: Mapping[str, str], file: Path | None) -> bytes | None:
    """The cluster's secret if the user gives one; the bytes of the file as they are."""
    return _given(env, SECRET, file)


def read_secret_also(env: Mapping[str, str]) -> bytes | None:
    """The secret that holds beside the cluster's, if there is one."""
    return _given(env, SECRET_ALSO, None)


def _given(env: Mapping[str, str], name: str, file: Path | None) -> bytes | None:
    variable = f"{name}_FILE"
    if env.get(name):
        if file or env.get(variable):
            raise UsageError(f"{name} and a file with the secret are both given; leave out one")
        return _long_enough(env[name].encode(), name)
    named = file or (Path(env[variable]) if env.get(variable) else None)
    if named is None:
        return None
    return _long_enough(_read(named, "--secret-file" if file else variable), str(named))


def _long_enough(secret: bytes, where: str) -> bytes:
    if len(secret) < _LEAST_SECRET:
        raise UsageError(f"the secret in {where} is short; it needs {_LEAST_SECRET} bytes or more")
    return secret


def shared_secret(topology: Topology, directory: Path) -> bytes:
    """The one that hosts on the same machine share, made by the first of them."""
    if not topology.is_local:
        raise UsageError(
            f"the hosts of {topology.name} are on several machines and need the same secret: put "
            f"at least {_LEAST_SECRET} random bytes in a file on each, and name it by "
            f"--secret-file or {SECRET_FILE}"
        )
    return load_secret(directory)


def queues_address(
    topology: Topology, env: Mapping[str, str], file: Path | None, spool: Path
) -> str:
    """The user's, or else the topology's; `spool` is for a topology without a broker."""
    if env.get(QUEUES_VARIABLE):
        return env[QUEUES_VARIABLE]
    if file is not None:
        return _read(file, "--queues-file").decode(errors="replace").strip()
    if topology.queues.kind is QueuesKind.SPOOL:
        return spool_address(spool)
    return with_prefix(topology.queues.url, topology.name)


def spool_address(directory: Path) -> str:
    return f"spool:{quote(str(directory.absolute()))}"


def spool_directory(address: str) -> Path | None:
    """Of a spool; None for a broker."""
    scheme, _, path = address.partition(":")
    return Path(unquote(path.removeprefix("//"))) if scheme == "spool" else None


def with_prefix(url: str, prefix: str) -> str:
    """Topologies share a broker without meeting."""
    return url if urlsplit(url).fragment else f"{url.rstrip('#')}#{prefix}"


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} ({what}) cannot be read: {error.strerror}") from None
