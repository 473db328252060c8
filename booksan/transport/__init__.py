"""The seam to the queues: from an address (spool:/path, amqp:// or amqps://) to a transport."""

import os
from pathlib import Path
from urllib.parse import quote, unquote

from booksan.errors import UsageError
from booksan.transport.base import Consumer, Delivery, Depth, Outgoing, Transport
from booksan.transport.rabbitmq_address import (
    EXAMPLE,
    masked_broker_address,
    parse_broker_address,
)
from booksan.transport.spool import Spool

__all__ = [
    "QUEUES_VARIABLE",
    "Consumer",
    "Delivery",
    "Depth",
    "Outgoing",
    "Spool",
    "Transport",
    "check_address",
    "masked",
    "open_transport",
    "queues_address",
]

#: By environment, because it may hold a password.
QUEUES_VARIABLE = "BOOKSAN_QUEUES"


def queues_address(root: Path) -> str:
    """Where the queues of a host are: as the environment says, else in its own directory."""
    return os.environ.get(QUEUES_VARIABLE) or f"spool:{quote(str(root))}"


def open_transport(address: str, *, sync: bool = True) -> Transport:
    """With sync=False the spool leaves it to the system when to write; brokers do not care."""
    scheme, _, rest = address.partition(":")
    if scheme == "spool":
        return Spool(_spool_path(address, rest), sync=sync)
    if scheme in ("amqp", "amqps"):
        # Only here: a system without a broker needs neither the library nor the time to load it.
        from booksan.transport.rabbitmq import RabbitMQ

        return RabbitMQ(parse_broker_address(address))
    raise _unknown(address)


def check_address(address: str) -> None:
    """UsageError if the address cannot be one, without opening anything."""
    scheme, _, rest = address.partition(":")
    if scheme == "spool":
        _spool_path(address, rest)
    elif scheme in ("amqp", "amqps"):
        parse_broker_address(address)
    else:
        raise _unknown(address)


def masked(address: str) -> str:
    """The address as it may stand in logs: without its password."""
    scheme = address.partition(":")[0]
    if scheme == "spool":
        return address
    return masked_broker_address(address)


def _spool_path(address: str, rest: str) -> Path:
    path = Path(unquote(rest.removeprefix("//")))
    if not path.is_absolute() or "\0" in str(path):
        raise UsageError(
            f"the transport address {address} cannot be used: it names no absolute path. "
            "Write it like spool:/var/lib/booksan"
        )
    return path


def _unknown(address: str) -> UsageError:
    return UsageError(
        f"the transport address {masked(address)} cannot be used: "
        f"it begins with none of spool:, amqp:// and amqps://. "
        f"Write it like spool:/var/lib/booksan or {EXAMPLE}."
    )
