"""The address of a broker, taken apart and put together again without its secrets."""

import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from booksan.errors import UsageError
from booksan.transport.base import QUEUE_NAME

QUEUE_TYPES = ("classic", "quorum")

#: Prefix, dot and queue name fit into the 255 bytes that AMQP allows.
LONGEST_PREFIX = 50

EXAMPLE = "amqp://user:password@host:5672/vhost?queue_type=classic#prefix"

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True)
class BrokerAddress:
    host: str = "localhost"
    port: int = 5672
    user: str = field(default="guest", repr=False)
    password: str = field(default="guest", repr=False)
    vhost: str = "/"
    tls: bool = False
    cafile: Path | None = None
    queue_type: str = "classic"
    prefix: str = ""

    def __str__(self) -> str:
        """For people: who connects and with what password is left out."""
        scheme = "amqps" if self.tls else "amqp"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}/{quote(self.vhost, safe='')}"

    def queue_name(self, queue: str) -> str:
        """What the queue is called on the broker."""
        return f"{self.prefix}.{queue}" if self.prefix else queue

    def hide(self, text: str) -> str:
        """The text without the password, should anybody have put it in there."""
        return text.replace(self.password, "***") if self.password else text

    def tls_context(self) -> ssl.SSLContext | None:
        """Verifies the broker's certificate and name, by the given authority or the system's."""
        if not self.tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.cafile)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"cannot read the certificates in {self.cafile}: {error}. "
                "Name a PEM file with the authority of the broker's certificate as cafile."
            ) from error


def is_loopback(host: str) -> bool:
    """Only of this machine; a name says nothing about who answers to it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def parse_broker_address(address: str) -> BrokerAddress:
    try:
        parts = urlsplit(address)
        port = parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
    except ValueError as error:
        # Not the error's own text: it may quote a piece of the password.
        raise _bad(address, "it cannot be read") from error
    if not parts.hostname:
        raise _bad(address, "it names no host")
    if "@" in parts.path + parts.query + parts.fragment:
        # Most likely a password with a bare / or #: parts of it would be taken for the vhost.
        raise _bad(address, "it has an @ in a place where none can be")
    queue_type, cafile = _options(address, parts, options)
    return BrokerAddress(
        host=parts.hostname,
        port=port or DEFAULT_PORTS[parts.scheme],
        user=_decode(address, parts.username, "guest"),
        password=_decode(address, parts.password, "guest"),
        vhost=_decode(address, parts.path.removeprefix("/") or None, "/"),
        tls=parts.scheme == "amqps",
        cafile=cafile,
        queue_type=queue_type,
        prefix=_prefix(address, parts.fragment),
    )


def masked_broker_address(address: str) -> str:
    """The address with *** in place of the password; all of what cannot be read is hidden."""
    try:
        parts = urlsplit(address)
        place = parts.netloc.rpartition("@")
    except ValueError:
        return address.partition(":")[0] + "://***"
    if not place[1]:
        # Without user and password; or with a character in them that ended the host's part early.
        return address if "@" not in address else f"{parts.scheme}://***"
    user, colon, _ = place[0].partition(":")
    netloc = f"{user}{':***' if colon else ''}@{place[2]}"
    rest = parts._replace(netloc=netloc)
    if "@" in rest.path + rest.query + rest.fragment:
        return f"{parts.scheme}://***"
    return rest.geturl()


def _options(address: str, parts: SplitResult, options: dict[str, str]) -> tuple[str, Path | None]:
    unknown = sorted(set(options) - {"queue_type", "cafile"})
    if unknown:
        raise _bad(address, f"it has the unknown option {unknown[0]!r}")
    queue_type = options.get("queue_type", "classic")
    if queue_type not in QUEUE_TYPES:
        raise _bad(address, "its queue_type is neither classic nor quorum")
    if "cafile" not in options:
        return queue_type, None
    if parts.scheme != "amqps":
        raise _bad(address, "it has a cafile but no TLS: begin it with amqps://")
    return queue_type, _cafile(address, options["cafile"])


def _cafile(address: str, name: str) -> Path:
    path = Path(name)
    if not path.is_absolute() or not path.is_file():
        raise _bad(address, f"its cafile {name!r} is not the absolute path of a file")
    return path


def _prefix(address: str, fragment: str) -> str:
    prefix = unquote(fragment)
    if prefix and (len(prefix) > LONGEST_PREFIX or not QUEUE_NAME.fullmatch(prefix)):
        raise _bad(
            address,
            f"its prefix (behind the #) is not up to {LONGEST_PREFIX} letters, digits, "
            "'.', '-' and '_' with no '.' in front",
        )
    return prefix


def _decode(address: str, text: str | None, default: str) -> str:
    if text is None:
        return default
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise _bad(address, "its percent-encoding is not UTF-8") from error


def _bad(address: str, why: str) -> UsageError:
    return UsageError(
        f"the transport address {masked_broker_address(address)} cannot be used: {why}. "
        f"Write it like {EXAMPLE}, with special characters percent-encoded."
    )
